"""Checks what a person is told about a workload, and what its pods have."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import yaml

from e2e.installed.installation import (
    installed,
    wait_for_facts,
)
from e2e.installed.kubectl import WARNING, CommandResult, Kubectl, run
from e2e.installed.launch import COMMANDS
from e2e.scenarios.admission import (
    GPU,
    LEGACY,
    ORIGINAL,
    claim_of,
    devices,
    legacy_pod,
)
from e2e.scenarios.admission_scope import pods_of
from e2e.scenarios.objects import JSON
from e2e.scenarios.stage import Stage
from e2e.scenarios.workload_makers import Maker

# Parts of kubectl's output that differ between two objects of one kind.
RENAMED: Final = "the-other"
ATTEMPTS: Final = 5
DETAILS: Final = "details: "


def enter(stage: Stage, *suffixes: str) -> Kubectl:
    """Add machines of eight GPUs that admission knows, and give who applies."""
    cluster = installed(stage)
    for suffix in suffixes:
        stage.node(suffix, "dgx-a100", {GPU: "full"})
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"), "A100")
    return cluster.kubectl.inside(stage.namespace)


def told(ran: CommandResult, kind: str, count: int = 1) -> None:
    """Check that the author is told what each pod becomes, and how to see all of it."""
    first, *_, last = ran.check().warnings
    plural = "device" if count == 1 else "devices"
    assert first == (
        f"pods will be translated: {LEGACY}: {count} of container main -> "
        f"{count} {plural} of class {GPU} (claim drawbridge)"
    ), ran
    assert last.startswith(f"{DETAILS}kubectl get {kind}"), ran


def told_alike(applied: CommandResult, tried: CommandResult) -> None:
    """Check that a dry run told the same, but for the command that shows all of it."""
    told, before = (
        [line for line in ran.err.splitlines() if not line.startswith(f"{WARNING}{DETAILS}")]
        for ran in (applied, tried)
    )
    assert (applied.code, told) == (tried.code, before), f"{tried}{applied}"


def followed(kubectl: Kubectl, ran: CommandResult, body: JSON) -> str:
    """Do what the last warning says, as a person would who wants to know all of it."""
    words = ran.warnings[-1].removeprefix(DETAILS)
    path = f"{kubectl.program.parent}{os.pathsep}{COMMANDS}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(kubectl.access), "PATH": path}
    with TemporaryDirectory() as folder:
        file = Path(folder, "object.yaml")
        file.write_text(yaml.safe_dump(body), encoding="utf-8")
        words = words.replace(" FILE ", f" {file} ")
        return run(["sh", "-c", words], (words,), environment=environment).check().out


def running(stage: Stage, app: str, pods: int, count: int = 1) -> list[JSON]:
    """Wait for exactly so many pods, all running, of one template, with so many GPUs each."""

    def settled() -> list[JSON]:
        settled_pods = pods_of(stage, app)
        fits = len(settled_pods) == pods and all(_runs(each, count) for each in settled_pods)
        return settled_pods if fits else []

    what = f"{pods} pods of {app} run with {count} GPUs each"
    settled_pods = stage.wait(what, settled)
    names = [each["metadata"]["name"] for each in settled_pods]
    held = {name: devices(stage, name) for name in names}
    for pod in settled_pods:
        assert held[pod["metadata"]["name"]] == stage.fleet.held_by(pod)
    everything = [device for some in held.values() for device in some]
    assert len(set(everything)) == len(everything) == pods * count, held
    assert len({claim_of(stage, name)[0] for name in names}) == 1, names
    return settled_pods


def _runs(pod: JSON, count: int) -> bool:
    """Return whether a translated pod runs that asked for this many."""
    requested = f'"{LEGACY}":"{count}"'
    original = pod["metadata"].get("annotations", {}).get(ORIGINAL, "")
    runs = pod.get("status", {}).get("phase") == "Running"
    return runs and requested in original.replace(" ", "")


def uids(pods: list[JSON]) -> set[str]:
    """Tell pods apart."""
    return {each["metadata"]["uid"] for each in pods}


def replaced_alike(stage: Stage, kubectl: Kubectl, kind: str, body: JSON, twin: JSON) -> None:
    """`kubectl replace` of a manifest says of a translated one what it says of any other."""
    kubectl.apply(twin).check()
    _settled(stage, twin["metadata"]["name"])
    ran = [_replaced(kubectl, each) for each in (body, twin)]
    names = [each["metadata"]["name"] for each in (body, twin)]
    ours, theirs = map(_plain, ran, names)
    assert ours == theirs, f"{ran[0]}{ran[1]}"
    kubectl("delete", kind, twin["metadata"]["name"], "--cascade=foreground").check()


def _replaced(kubectl: Kubectl, body: JSON) -> CommandResult:
    """Replace; again if the status was written between kubectl's read and its write."""
    for _ in range(ATTEMPTS):
        ran = kubectl("replace", "--save-config", "-f", "-", stdin=body)
        if "(Conflict)" not in ran.err:
            break
    return ran


def _settled(stage: Stage, app: str) -> None:
    def settled() -> bool:
        pods = pods_of(stage, app)
        return all(each.get("status", {}).get("phase") == "Running" for each in pods)

    stage.wait(f"{app} runs", settled)


def _plain(ran: CommandResult, name: str) -> tuple[int, str]:
    """Return what was said up to where it shows the whole object, without the name."""
    said = [line for line in (ran.out + ran.err).splitlines() if not line.startswith("Warning")]
    return ran.code, said[0].replace(name, RENAMED).partition("{")[0] if said else ""


def untranslated(stage: Stage, make: Maker, name: str, replicas: int) -> JSON:
    """Return one of the same kind that asks for nothing, and is none of our business."""
    pod = stage.pod_object(name)
    return make(pod, replicas)
