"""Scenarios: every kind of workload gets a warning, and its pods are translated.

Each pod requests one GPU unless a scenario says otherwise, on a machine with eight. The devices of
a pod are read from the records of the drivers.
"""
# house: long module, one scenario for each kind of workload

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from e2e.installed.installation import (
    dry_run,
    installed,
    set_mode,
    template_names,
    wait_for_facts,
)
from e2e.installed.kubectl import CommandResult, Kubectl, run
from e2e.installed.launch import COMMANDS
from e2e.scenarios.admission import (
    GPU,
    LEGACY,
    NEEDS,
    ORIGINAL,
    claim_of,
    deployment,
    devices,
    legacy_pod,
)
from e2e.scenarios.admission_scope import add_plugin_node, pods_of
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

Maker = Callable[[JSON, int], JSON]
BATCH = "/apis/batch/v1"
# Parts of kubectl's output that differ between two objects of one kind.
RENAMED: Final = "the-other"


def stateful_set(pod: JSON, replicas: int) -> JSON:
    """Return a StatefulSet of such pods; it makes them one after the other."""
    body = deployment(pod, replicas)
    return {**body, "kind": "StatefulSet", "spec": {**body["spec"], "serviceName": "none"}}


def daemon_set(pod: JSON, _: int) -> JSON:
    """Return a DaemonSet: one pod on every node that the pod selects."""
    body = deployment(pod, 0)
    spec = {key: value for key, value in body["spec"].items() if key != "replicas"}
    return {**body, "kind": "DaemonSet", "spec": spec}


def replica_set(pod: JSON, replicas: int) -> JSON:
    """Return a ReplicaSet of nobody's."""
    return {**deployment(pod, replicas), "kind": "ReplicaSet"}


def job(pod: JSON, replicas: int) -> JSON:
    """Return a Job that runs this many pods at once."""
    template = deployment(pod, 0)["spec"]["template"]
    spec = {"parallelism": replicas, "completions": replicas, "template": template}
    template["spec"] = {**template["spec"], "restartPolicy": "Never"}
    metadata = {"name": pod["metadata"]["name"]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def cron_job(pod: JSON, replicas: int) -> JSON:
    """Return a CronJob that starts such a Job every minute, as long as none runs."""
    made = job(pod, replicas)
    spec = {
        "schedule": "* * * * *",
        "concurrencyPolicy": "Forbid",
        "jobTemplate": {"spec": made["spec"]},
    }
    return {**made, "kind": "CronJob", "spec": spec}


MAKERS: Mapping[str, Maker] = {
    "statefulset": stateful_set,
    "daemonset": daemon_set,
    "replicaset": replica_set,
    "job": job,
    "cronjob": cron_job,
}


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
    assert last.startswith(f"details: kubectl get {kind}"), ran


def followed(kubectl: Kubectl, ran: CommandResult) -> str:
    """Do what the last warning says, as a person would who wants to know all of it."""
    words = ran.warnings[-1].removeprefix("details: ")
    path = f"{kubectl.program.parent}{os.pathsep}{COMMANDS}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(kubectl.access), "PATH": path}
    done = run(["sh", "-c", words], (words,), environment=environment)
    # The exit code reports a change, as that of diff does.
    assert done.code == 1, done
    return done.out


def running(stage: Stage, app: str, pods: int, count: int = 1) -> list[JSON]:
    """Wait for exactly so many pods, all running, of one template, with so many GPUs each."""

    def settled() -> list[JSON]:
        found = pods_of(stage, app)
        fits = len(found) == pods and all(_runs(each, count) for each in found)
        return found if fits else []

    what = f"{pods} pods of {app} run with {count} GPUs each"
    found = stage.wait(what, settled)
    names = [each["metadata"]["name"] for each in found]
    held = {name: devices(stage, name) for name in names}
    for each in found:
        assert held[each["metadata"]["name"]] == stage.fleet.held_by(each)
    everything = [device for some in held.values() for device in some]
    assert len(set(everything)) == len(everything) == pods * count, held
    assert len({claim_of(stage, name)[0] for name in names}) == 1, names
    return found


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
    words = ("replace", "--save-config", "-f", "-")
    ran = [kubectl(*words, stdin=each) for each in (body, twin)]
    names = [each["metadata"]["name"] for each in (body, twin)]
    ours, theirs = map(_plain, ran, names)
    assert ours == theirs, f"{ran[0]}{ran[1]}"
    kubectl("delete", kind, twin["metadata"]["name"], "--cascade=foreground").check()


def _settled(stage: Stage, app: str) -> None:
    def settled() -> bool:
        found = pods_of(stage, app)
        return all(each.get("status", {}).get("phase") == "Running" for each in found)

    stage.wait(f"{app} runs", settled)


def _plain(ran: CommandResult, name: str) -> tuple[int, str]:
    """Return what was said up to where it shows the whole object, without the name."""
    said = [line for line in (ran.out + ran.err).splitlines() if not line.startswith("Warning")]
    return ran.code, said[0].replace(name, RENAMED).partition("{")[0] if said else ""


def untranslated(stage: Stage, make: Maker, name: str, replicas: int) -> JSON:
    """Return one of the same kind that asks for nothing, and is none of our business."""
    pod = stage.pod_object(name)
    return make(pod, replicas)


@scenario("full", rig="installed", needs=NEEDS)
def a_deployment_is_scaled_and_rolled_out(stage: Stage) -> None:
    """All pods use one template. A changed request creates another template and a rollout."""
    kubectl = enter(stage, "a")
    body = deployment(legacy_pod(stage, "serve"), 2)
    told(kubectl.apply(body), "deployment.apps serve")
    try:
        first = running(stage, "serve", 2)
        for replicas in (4, 1, 2):
            ran = kubectl("scale", "deployment/serve", f"--replicas={replicas}").check()
            assert ran.warnings == [], ran
            running(stage, "serve", replicas)
        kubectl("rollout", "restart", "deployment/serve").check()
        kubectl("rollout", "status", "deployment/serve", "--timeout=30s").check()
        again = running(stage, "serve", 2)
        assert not uids(first) & uids(again)
        assert len(template_names(stage)) == 1
        told(
            kubectl.apply(deployment(legacy_pod(stage, "serve", 2), 2)), "deployment.apps serve", 2
        )
        kubectl("rollout", "status", "deployment/serve", "--timeout=30s").check()
        running(stage, "serve", 2, 2)
        assert len(template_names(stage)) == 2
        kubectl("rollout", "undo", "deployment/serve").check()
        kubectl("rollout", "status", "deployment/serve", "--timeout=30s").check()
        running(stage, "serve", 2)
        assert len(template_names(stage)) == 2
    finally:
        kubectl("delete", "deployment", "serve", "--cascade=foreground").check()


def play(kind: str, stage: Stage) -> None:
    """Apply one of a kind, in every way there is, and look at its pods."""
    kubectl = enter(stage, "a", "b")
    make = MAKERS[kind]
    body = make(legacy_pod(stage, "work"), 2)
    tried = kubectl.apply(body, words=("--dry-run=server",))
    applied = kubectl.apply(body)
    try:
        told(applied, kind)
        assert applied.warnings == tried.check().warnings, f"{tried}{applied}"
        if kind == "cronjob":
            _is_due(stage)
        pods = running(stage, "work", 2)
        (template,) = template_names(stage)
        assert template in followed(kubectl, applied)
        different = kubectl("diff", "-f", "-", stdin=body)
        assert (different.code, different.out) == (0, ""), different
        again = kubectl.apply(body).check()
        assert (again.warnings, "unchanged" in again.out) == ([], True), again
        replaced_alike(stage, kubectl, kind, body, untranslated(stage, make, "bystander", 2))
        assert uids(running(stage, "work", 2)) == uids(pods)
        _changed(stage, kubectl, kind)
    finally:
        kubectl("delete", kind, "work", "--cascade=foreground").check()


def _changed(stage: Stage, kubectl: Kubectl, kind: str) -> None:
    """Ask for two instead of one: the pods follow where their kind lets them."""
    body = MAKERS[kind](legacy_pod(stage, "work", 2), 2)
    if kind == "job":
        # The pod template of a Job is immutable.
        assert "field is immutable" in kubectl.apply(body).err
        kubectl("delete", "job", "work", "--cascade=foreground").check()
    told(kubectl.apply(body), kind, 2)
    if kind == "cronjob":
        kubectl("delete", "job", "--all", "--cascade=foreground").check()
        _is_due(stage)
    elif kind == "replicaset":
        kubectl("delete", "pod", "--all", "--wait=false").check()
    running(stage, "work", 2, 2)
    assert len(template_names(stage)) == 2


def _is_due(stage: Stage) -> None:
    """Let a CronJob's controller believe that it has missed a minute."""
    path = stage.path("cronjobs", "work", BATCH)
    stage.client.patch(f"{path}/status", {"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}})


def _register(kind: str) -> None:
    play_it = partial(play, kind)
    play_it.__name__ = f"the_pods_of_a_{kind}_are_translated"  # type: ignore[attr-defined]
    play_it.__doc__ = f"A {kind}: told at once, one template for all its pods, applied again."
    scenario("full", rig="installed", needs=NEEDS)(play_it)


for _kind in MAKERS:
    _register(_kind)


@scenario("full", rig="installed", needs=NEEDS)
def pods_with_generated_names_share_a_template(stage: Stage) -> None:
    """`kubectl create` of a pod with generateName, twice: two pods, two claims, one template."""
    kubectl = enter(stage, "a")
    body = legacy_pod(stage, "work")
    body["metadata"] = {"generateName": "work-", "labels": {"app": "work"}}
    for _ in range(2):
        ran = kubectl("create", "-f", "-", stdin=body).check()
        assert ran.warnings[0].startswith(f"translated: {LEGACY}: 1 of container main -> "), ran
    running(stage, "work", 2)
    assert len(template_names(stage)) == 1


@scenario("full", rig="installed", needs=NEEDS)
def replacing_a_running_pod_fails_as_without_drawbridge(stage: Stage) -> None:
    """`kubectl replace` of a bare pod by its manifest reports the usual error."""
    kubectl = enter(stage, "a")
    body = legacy_pod(stage, "work", labels={"app": "work"})
    kubectl.apply(body).check()
    before = running(stage, "work", 1)
    replaced_alike(stage, kubectl, "pod", body, untranslated(stage, _alone, "bystander", 1))
    assert [each["spec"] for each in running(stage, "work", 1)] == [before[0]["spec"]]


@scenario("full", rig="installed", needs=NEEDS)
def mutable_fields_of_a_translated_pod_can_be_changed(stage: Stage) -> None:
    """Applying a new image, label or toleration changes only that field."""
    kubectl = enter(stage, "a")
    body = legacy_pod(stage, "work", labels={"app": "work"})
    kubectl.apply(body).check()
    (before,) = running(stage, "work", 1)
    body["metadata"]["labels"]["team"] = "research"
    body["spec"]["containers"][0]["image"] = "example.com/other"
    added = {"key": "example.com/slow", "operator": "Exists", "effect": "NoSchedule"}
    body["spec"]["tolerations"] = [*before["spec"]["tolerations"], added]
    different = kubectl("diff", "-f", "-", stdin=body)
    changes = [line for line in different.out.splitlines() if line[:1] in ("+", "-")]
    assert (different.code, bool(changes)) == (1, True), different
    assert not any(LEGACY in line or "drawbridge" in line for line in changes), different
    kubectl.apply(body).check()
    (after,) = running(stage, "work", 1)
    assert after["metadata"]["labels"] == {**before["metadata"]["labels"], "team": "research"}
    wanted = {**before["spec"], "tolerations": body["spec"]["tolerations"]}
    wanted["containers"] = [{**before["spec"]["containers"][0], "image": "example.com/other"}]
    assert after["spec"] == wanted
    kubectl.apply(body).check()
    assert stage.get_pod("work")["spec"] == wanted


@scenario("full", rig="installed", needs=NEEDS)
def a_queue_can_set_the_node_selector_of_a_gated_pod(stage: Stage) -> None:
    """It narrows the required node affinity. The API server rejects an additional term."""
    add_plugin_node(stage, "old")
    enter(stage, "a")
    body = legacy_pod(stage, "work")
    stage.wait("the plugin is known", lambda: "affinity" in dry_run(stage, body)["spec"])
    gates = [{"name": "example.com/queue"}]
    stage.client.create(
        stage.pod_path(), {**body, "spec": {**body["spec"], "schedulingGates": gates}}
    )
    (term,) = required(stage.get_pod("work"))
    assert [each["key"] for each in term["matchExpressions"]] == ["drawbridge.dev/dual"]
    field = {"key": "metadata.name", "operator": "In", "values": [f"{stage.name}-a"]}
    here = {"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]}
    path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
    steps = [
        {"op": "add", "path": f"{path}/nodeSelectorTerms/0/matchFields", "value": [field]},
        {"op": "add", "path": f"{path}/nodeSelectorTerms/0/matchExpressions/-", "value": here},
        {"op": "remove", "path": "/spec/schedulingGates"},
    ]
    stage.client.patch(stage.pod_path("work"), steps, "application/json-patch+json")
    (after,) = required(stage.wait_running("work"))
    assert after == {"matchExpressions": [*term["matchExpressions"], here], "matchFields": [field]}


def required(pod: JSON) -> list[JSON]:
    """Return the terms of nodes of which a pod requires one."""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]
    terms: list[JSON] = affinity["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return terms


def _alone(pod: JSON, _: int) -> JSON:
    return pod


@scenario("full", rig="installed", needs=NEEDS)
def a_report_warning_names_a_command_that_shows_the_details(stage: Stage) -> None:
    """The command works for running pods too."""
    add_plugin_node(stage, "old")
    kubectl = enter(stage, "a")
    body = legacy_pod(stage, "work")
    (main,) = body["spec"]["containers"]
    # Names so long that a warning has no room for the translation.
    names = [each * 63 for each in "ab"]
    body["spec"]["containers"] = [{**main, "name": name} for name in names]
    tried = kubectl.apply(body, words=("--dry-run=server",)).check()
    set_mode(stage, "report")

    def reported() -> list[str]:
        ran = kubectl.apply(legacy_pod(stage, "probe"), words=("--dry-run=server",)).check()
        return [each for each in ran.warnings if each.startswith("would be")]

    stage.wait("it is reported only", reported)
    ran = kubectl.apply(body).check()
    stage.wait_running("work")
    assert ran.warnings[0][:240] == f"would be {tried.warnings[0]}"[:240]
    assert "kind: ResourceClaimTemplate" in followed(kubectl, ran)


@scenario("smoke", rig="installed", needs=NEEDS)
def a_workload_whose_pods_would_be_refused_is_refused(stage: Stage) -> None:
    """No driver serves replicas. The workload gets the message that its pods would get."""
    kubectl = enter(stage, "a")
    pod = stage.pod_object("work", limits={f"{LEGACY}.shared": "1"})
    refused = kubectl.apply(pod)
    for kind, make, where in (
        ("deployments", deployment, "spec.template.spec"),
        ("cronjobs", cron_job, "spec.jobTemplate.spec.template.spec"),
    ):
        for words in (("--dry-run=server",), ()):
            ran = kubectl.apply(make(pod, 2), words=words)
            assert ran.code == 1, ran
            assert f"NoTargetSaysIt: {where}.containers[0]: " in ran.err, ran
            assert _sentence(ran) == _sentence(refused), f"{ran}{refused}"
        assert kubectl.get(kind)["items"] == []
    assert pods_of(stage, "work") == []


def _sentence(ran: CommandResult) -> str:
    return ran.err.partition(".containers[0]: ")[2]
