"""Scenarios: the `drawbridge` command translates legacy manifests, and the pods run.

Each case of `translated.yaml` and `translated_meaning.yaml` is a scenario. The command translates
the manifest with facts of the running cluster, and `kubectl` applies the output with its templates.
The devices of each pod are read from the records of drivers and plugins and compared with the
hardware. The module imports no product package.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from e2e.nodes.family import CLASSES
from e2e.nodes.machine import Machine
from e2e.nodes.plugin import replicas
from e2e.scenarios import holdings, volcano
from e2e.scenarios.holdings import ExpectedDevices, ExpectedPods
from e2e.scenarios.objects import JSON, RESOURCE, device_class
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

ROOT = Path(__file__).parents[2]
CASES = ("translated.yaml", "translated_meaning.yaml")
DRAWBRIDGE = Path(sys.executable).with_name("drawbridge")
SECONDS = 60
CODE = re.compile(r"(?:warning|error): .* \[(\w+)\]$", re.MULTILINE)
NAMESPACE = "NAMESPACE"  # in a configuration: the stage's, as in the manifests
MAKERS = "deployments,replicasets,jobs.batch"  # of pods, as far as manifests here have them
UNTOUCHED, TRANSLATED, REFUSED = 0, 1, 2


class Advertised(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a plugin advertises: all GPUs of a machine or tokens, each so many `times`."""

    of: Literal["gpus", "tokens"] = "gpus"
    times: int = 1


class Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A machine with its drivers (and their modes), plugins (by resource) and labels."""

    shape: str
    drivers: dict[str, str | None] = {}
    plugins: dict[str, Advertised] = {}
    labels: dict[str, str] = {}


class ManifestCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One manifest and what becomes of it.

    `codes` are those of the warnings and errors; `serves` maps an extended resource name to the
    class whose devices a class of that name serves; `scheduler` is the pods' own one, and with
    `jobs` there are Jobs of Volcano in the manifest.
    """

    name: str
    shows: str
    suite: str
    nodes: dict[str, Node]
    codes: list[str] = []
    example: str = ""
    manifest: str = ""
    configuration: str = ""
    since: str = "1.36"
    exit: int = TRANSLATED
    pods: list[ExpectedPods] = []
    serves: dict[str, str] = {}
    scheduler: str = ""
    jobs: bool = False


_CASE_LIST = list[ManifestCase]


def cases() -> list[ManifestCase]:
    """Read the cases."""
    texts = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in CASES)
    return [case for text in texts for case in msgspec.yaml.decode(text, type=_CASE_LIST)]


JOINT = """---
apiVersion: v1
kind: Pod
metadata:
  name: gpus-{gpus}
  namespace: research
  annotations:
    scheduling.koordinator.sh/device-joint-allocate: |
      {{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}}
spec:
  schedulerName: koord-scheduler
  nodeSelector: {{kubernetes.io/hostname: STAGE-n{gpus}}}
  containers:
    - name: main
      image: none
      resources: {{limits: {{koordinator.sh/gpu: {gpus}00, koordinator.sh/rdma: {nics}00}}}}
"""
GPUS_PER_ROOT = {"dgx-a100": 2, "koordinator-fake-8g4n": 2, "hgx-h100": 1}


def every_count(shape: str) -> ManifestCase:
    """Ask for one to eight GPUs with a NIC for each PCIe root, each on a machine of its own."""
    roots = {gpus: -(-gpus // GPUS_PER_ROOT[shape]) for gpus in range(1, 9)}
    have = {n: ExpectedDevices({"gpu": n, "nic": roots[n]}) for n in roots}
    return ManifestCase(
        name=f"joint-one-to-eight-{shape}",
        shows="For every number of GPUs the NICs are those of their PCIe roots.",
        suite="full",
        nodes={
            f"n{n}": Node(shape, {"gpu.nvidia.com": "full", "dra.net": "reversed"}) for n in roots
        },
        manifest="".join(JOINT.format(gpus=n, nics=roots[n]) for n in roots),
        codes=["SchedulerLeft"],
        pods=[
            ExpectedPods(f"gpus-{n}", [f"n{n}"], {"main": have[n]}, roots=roots[n], ports=roots[n])
            for n in roots
        ],
    )


def play(case: ManifestCase, stage: Stage, *, codes: bool = True) -> None:
    """Build the cluster, translate for it, apply the result, and look at what the pods have.

    Without `codes` the warnings may be others than those of the case.
    """
    build(case, stage)
    folder = Path(stage.enter(tempfile.TemporaryDirectory(prefix="drawbridge-translated-")))
    written, told = _translated(stage, case, folder)
    assert not codes or sorted(set(CODE.findall(told))) == sorted(case.codes), told
    if case.exit == REFUSED:
        return
    try:
        _applied(stage, case, written)
    finally:
        # Only pods stay, for the report on a failure; no controller recreates them.
        _kubectl(stage, "delete", MAKERS, "--all", "--cascade=orphan", "--wait=false")


def build(case: ManifestCase, stage: Stage) -> None:
    """Add the nodes of a case and what else its manifest needs."""
    for suffix, node in case.nodes.items():
        machine = stage.hardware(suffix, node.shape)
        plugins = {name: _units(machine, name, one) for name, one in node.plugins.items()}
        stage.node(suffix, node.shape, node.drivers, plugins, node.labels)
    for name, like in case.serves.items():
        body = device_class(f"serves-{like}", CLASSES[like], extendedResourceName=name)
        stage.cluster_object(f"{RESOURCE}/deviceclasses", body)
    if case.jobs:
        volcano.define(stage)
    if case.scheduler:
        stage.enter(_scheduler(stage, case.scheduler))


def _applied(stage: Stage, case: ManifestCase, written: Path) -> None:
    """Apply what was translated, twice, and look at what its pods have."""
    for again in (False, True):
        said = _kubectl(stage, "apply", "-f", str(written))
        assert not again or "created" not in said, said
    if case.jobs:
        volcano.make_pods(stage)
    for pods in case.pods:
        for pod in stage.wait(f"pods {pods.name} are there", partial(made, stage, pods)):
            holdings.compare(stage, pods, stage.wait_running(pod["metadata"]["name"]))
    _again(stage, written)


def _again(stage: Stage, written: Path) -> None:
    """Translate what the API server has made of everything: nothing is left to do."""
    everything = json.loads(_kubectl(stage, "get", f"pods,{MAKERS}", "-o", "json"))
    for one in everything["items"]:
        one["spec"].pop("nodeName", None)  # a pod that has its node is left as it is anyhow
    live = written.with_name("live.json")
    live.write_text(json.dumps(everything), encoding="utf-8")
    facts, wanted = written.with_name("facts.yaml"), written.with_name("config.yaml")
    extra: tuple[str | Path, ...] = ("--config", wanted) if wanted.exists() else ()
    ask = ("translate", "--exit-code", "--facts", facts, *extra)
    done = _run(DRAWBRIDGE, *ask, "-f", live, "-o", "diff")
    assert done.returncode == UNTOUCHED, done.stdout + done.stderr


def _units(machine: Machine, name: str, advertised: Advertised) -> tuple[str, ...]:
    if advertised.of == "tokens":
        return replicas((f"{machine.name}/{name}",), advertised.times)
    uuids = tuple(gpu.uuid for gpu in machine.gpus)
    return uuids if advertised.times == 1 else replicas(uuids, advertised.times)


@contextlib.contextmanager
def _scheduler(stage: Stage, name: str) -> Iterator[None]:
    """Let the stock scheduler answer to another name: what a scheduler that knows claims does."""
    plane = stage.processes
    plane.start_scheduler(name, {"profiles": [{"schedulerName": name}]})
    try:
        yield
    finally:
        plane.processes.pop(name).stop()


def _translated(stage: Stage, case: ManifestCase, folder: Path) -> tuple[Path, str]:
    """Run the command as a user would; the file it wrote, and what it said."""
    cluster, facts, before, after, configuration = (
        folder / f"{name}.yaml" for name in ("cluster", "facts", "legacy", "translated", "config")
    )
    kinds = "nodes,deviceclasses,resourceslices"
    cluster.write_text(_kubectl(stage, "get", kinds, "-o", "yaml"), encoding="utf-8")
    before.write_text(manifest(stage, case), encoding="utf-8")
    extra: list[str | Path] = []
    if case.configuration:
        text = case.configuration.replace(NAMESPACE, stage.namespace)
        header = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"
        configuration.write_text(header + text, encoding="utf-8")
        extra = ["--config", str(configuration)]
    counted = _run(
        DRAWBRIDGE,
        "config",
        "facts",
        "--cluster",
        cluster,
        "--kubernetes-version",
        stage.version,
        *extra,
    )
    assert counted.returncode < REFUSED, counted.stderr
    facts.write_text(counted.stdout, encoding="utf-8")
    ask = ("translate", "--exit-code", "--facts", facts, *extra)
    done = _run(DRAWBRIDGE, *ask, "-f", before, "-o", "yaml")
    assert done.returncode == case.exit, done.stderr
    after.write_text(done.stdout, encoding="utf-8")
    assert (done.stdout == before.read_text(encoding="utf-8")) == (case.exit != TRANSLATED)
    return after, done.stderr


def manifest(stage: Stage, case: ManifestCase) -> str:
    """Return the legacy manifest, in the stage's namespace and for its nodes."""
    text = case.manifest
    if case.example:
        text = (ROOT / "examples" / "legacy" / case.example).read_text(encoding="utf-8")
    text = re.sub(r"(?m)^(  namespace: ).*$", rf"\g<1>{stage.namespace}", text)
    return text.replace("STAGE", stage.name)


def _run(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(word) for word in words], check=False, capture_output=True, text=True, timeout=SECONDS
    )


def _kubectl(stage: Stage, *words: str) -> str:
    plane = stage.processes
    access = ("--kubeconfig", plane.user_config(), "-n", stage.namespace)
    done = _run(plane.bin / "kubectl", *access, *words)
    assert done.returncode == os.EX_OK, done.stderr
    return done.stdout


def made(stage: Stage, pods: ExpectedPods) -> list[JSON]:
    """Return the pods of a case once all of them are there."""
    listed = stage.client.get(stage.pod_path())["items"]
    mine = [pod for pod in listed if pod["metadata"]["name"].startswith(pods.name)]
    assert len(mine) <= pods.count, f"{len(mine)} pods {pods.name}"
    return mine if len(mine) == pods.count else []


def _register(case: ManifestCase) -> None:
    def play_it(stage: Stage) -> None:
        play(case, stage)

    play_it.__name__ = f"translated_{case.name}".replace("-", "_")
    play_it.__doc__ = case.shows
    scenario(case.suite, since=case.since, needs=("processes",))(play_it)


for _case in (*cases(), *map(every_count, GPUS_PER_ROOT)):
    _register(_case)
