"""Scenarios: an operator asks what became of pods, who holds a device, and why a pod waits."""

import json

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.installed.installation import Installation, installed, set_mode, wait_for_facts
from e2e.scenarios.admission import GPU, NEEDS, ORIGINAL, add_gpu_node, devices, legacy_pod
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.people import Person
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

DECISIONS = "drawbridge_decisions_total"


def count(stage: Stage, cluster: Installation, **labels: str) -> float:
    """Return the decisions of all replicas in the stage's namespace."""
    own = {"namespace": stage.namespace, **labels}
    return sum(each.metric(DECISIONS, **own) for each in cluster.webhooks)


@scenario("full", rig="installed", needs=NEEDS)
def report_mode_leaves_a_trace_that_a_restart_does_not_remove(stage: Stage) -> None:
    """Metrics and audit records count each pod once, dry runs never, and `audit` needs neither."""
    cluster = installed(stage)
    add_gpu_node(stage)
    body = legacy_pod(stage, "tried")
    wait_for_facts(stage, cluster, body)
    assert cluster.drawbridge("doctor", "-n", stage.namespace).code == 0
    assert count(stage, cluster) == 0, "the dry runs of doctor and of this scenario are counted"
    set_mode(stage, "report")

    def is_reported() -> bool:
        tried = stage.client.create(stage.pod_path(), body, dryRun="All")
        return ORIGINAL not in tried["metadata"].get("annotations", {})

    stage.wait("report mode", is_reported)
    names = ["one", "two", "three"]
    for name in names:
        stage.client.create(stage.pod_path(), legacy_pod(stage, name))
    assert count(stage, cluster, mode="report", verdict="translated") == len(names)
    assert count(stage, cluster) == len(names)
    records: list[JSON] = []
    written: list[JSON] = []

    def is_written() -> bool:
        lines = [line for replica in cluster.webhooks for line in replica.lines()]
        records[:] = [each for each in lines if each.get("namespace") == stage.namespace]
        written[:] = [each for each in records if each.get("verdict") and not each["dryRun"]]
        return {each["owner"] for each in written} == {f"Pod/{name}" for name in names}

    # A webhook answers before it writes its log.
    stage.wait("a record of each pod", is_written)
    assert len(written) == len(names), written
    assert all(" -> 1 device of class" in each["changes"][0] for each in written), written
    assert any(each["dryRun"] and each.get("mode") == "enforce" for each in records), records
    for replica in cluster.webhooks:
        replica.stop()
    cluster.start_all()
    told = cluster.drawbridge("audit", stage.namespace, "--since", "1h", "-o", "json").check().out
    (audited,) = json.loads(told)["namespaces"]
    assert (audited["mode"], audited["pods"]["toTranslate"]) == ("report", len(names)), audited
    assert {each["owner"] for each in audited["workloads"]} == {f"Pod/{name}" for name in names}


@scenario("full", rig="installed", needs=NEEDS)
def one_command_says_who_holds_a_device_and_why_a_pod_waits(stage: Stage) -> None:
    """In native placement: the reason of each node, the claim and the pod of each device."""
    cluster = installed(stage)
    machine = add_gpu_node(stage)
    kubectl = cluster.kubectl.inside(stage.namespace)
    body = legacy_pod(stage, "holder", 2)
    wait_for_facts(stage, cluster, body)
    kubectl.apply(body).check()
    stage.wait_running("holder")
    kubectl.apply(legacy_pod(stage, "waiter")).check()
    stage.wait("the scheduler has tried it", lambda: "FailedScheduling" in seen(stage, "waiter"))
    inside = ("-n", stage.namespace)
    told = cluster.drawbridge("explain", "waiter", *inside)
    assert told.code == 1, told
    assert "simulation: no node can take the pod (upstream)" in told.out, told
    assert " ago: FailedScheduling: " in told.out, told
    first, second = devices(stage, "holder")
    for device in (first, second):
        name = device.rpartition("/")[2]
        told = cluster.drawbridge("explain", f"device/{machine.name}/{name}", "-o", "json").check()
        (held,) = json.loads(told.out)["devices"]
        assert (held["device"], held["pods"]) == (name, [f"{stage.namespace}/holder"]), held
    node = cluster.drawbridge("explain", f"node/{machine.name}").check().out
    assert f"{first} " in node, node
    viewer = Person(stage, cluster, "questions-viewer")
    viewer.bind("ClusterRole", "view", stage.namespace)
    stage.wait("the right", lambda: viewer.can("get", "resourceclaims", f"--namespace={inside[1]}"))
    told = viewer.drawbridge("explain", "waiter", *inside)
    assert (told.code, "simulation: not possible: " in told.out) == (1, True), told
    told = viewer.drawbridge("explain", f"device/{machine.name}")
    assert (told.code, "[PartUnreadable]" in told.err) == (0, True), told


def seen(stage: Stage, name: str) -> str:
    """Return the events of a pod as text."""
    return " ".join(stage.events(name))


@bridge_scenario("full")
def the_same_commands_answer_in_bridge_placement(stage: BridgeStage) -> None:
    """The claim and the pod of a device, and why a pod of Drawbridge's scheduler waits."""
    cluster, node = stage.placement.cluster, stage.node("a", "lab-2g2n", {GPU: "full"}).name
    stage.template("all", claim_spec(request("gpu", GPU, count=2)))
    stage.run_pod("holder", templates={"all": "all"})
    stage.pod("waiter", templates={"all": "all"})
    stage.wait("it is tried", lambda: stage.get_pod("waiter")["status"].get("conditions"))
    told = cluster.drawbridge("explain", f"device/{node}", "-o", "json").check()
    held = json.loads(told.out)["devices"]
    assert len(held) == 2, held
    assert {(each["node"], *each["pods"]) for each in held} == {
        (node, f"{stage.namespace}/holder")
    }, held
    told = cluster.drawbridge("explain", "waiter", "-n", stage.namespace)
    assert told.code == 1, told
    assert "  allocator" in told.out, told
    assert "simulation: no node can take the pod (drawbridge)" in told.out, told
