"""Scenarios: others on the cluster of bridge placement: a rival, people, and busy controllers."""

import signal
import time
from functools import partial

from e2e.bridge.placement import OWNED, SCHEDULER, BridgeStage, bridge_scenario
from e2e.nodes.fleet import NodePlan
from e2e.runner import print_line
from e2e.scenarios.bridge import running, told
from e2e.scenarios.objects import RESOURCE, claim_spec, request
from e2e.scenarios.owned_pools import FENCE, taint, taints
from e2e.scenarios.stage import LABEL
from e2e.timings import cpu_seconds

GPU = "gpu.nvidia.com"
NODES, PODS = 20, 150
PATIENCE_SECONDS = 180.0
WAITING, CHANGES = 20, 200
CALLS = "drawbridge_allocator_calls_total"


@bridge_scenario("full")
def a_rival_schedules_as_many_pods_at_the_same_time(stage: BridgeStage) -> None:
    """Only the fence separates the two: both kinds of pods may use every node of the stage."""
    kinds = {SCHEDULER: OWNED, "default-scheduler": {}}
    plans = [
        NodePlan(stage.node_name(f"{kind}-{number}"), "dgx-a100", {GPU: "full"}, labels)
        for kind, own in kinds.items()
        for number in range(NODES)
        for labels in ({LABEL: stage.name, **own},)
    ]
    stage.fleet.add_all(plans)
    owned = [plan.name for plan in plans if OWNED.items() <= dict(plan.labels).items()]
    stage.wait(
        "the nodes have the taint", lambda: all(FENCE in taints(stage, name) for name in owned)
    )
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    for number in range(PODS):
        stage.pod(f"own-{number}", templates={"gpu": "gpu"})
        rival = {"schedulerName": "default-scheduler", "tolerations": []}
        stage.pod(f"rival-{number}", templates={"gpu": "gpu"}, **rival)
    stage.wait("all pods run", partial(running, stage, 2 * PODS), PATIENCE_SECONDS)
    assert stage.check_allocations() == 2 * PODS
    for pod in stage.client.get(stage.pod_path())["items"]:
        name = pod["metadata"]["name"]
        assert (pod["spec"]["nodeName"] in owned) == name.startswith("own-"), name


@bridge_scenario("full")
def a_fence_that_somebody_removes_stops_allocations_until_it_is_back(stage: BridgeStage) -> None:
    """Without its controller the node has no devices for the allocator."""
    node = stage.run_on_new_node("before")
    controller = stage.placement.cluster.leader.started_process()
    controller.child.send_signal(signal.SIGSTOP)
    try:
        taint(stage, node)
        stage.pod("without", templates={"gpu": "gpu"})
        refused = partial(told, stage, "without", "the fence is missing")
        stage.wait("the pod is refused", refused)
    finally:
        controller.child.send_signal(signal.SIGCONT)
    stage.wait("the taint is back", lambda: FENCE in taints(stage, node))
    stage.wait_running("without")
    assert stage.get_pod("before")["status"]["phase"] == "Running"


@bridge_scenario("full")
def changes_of_unrelated_objects_cause_no_call(stage: BridgeStage) -> None:
    """Pods wait for devices while nodes, pods and slices change without a meaning for them."""
    names = [stage.node(str(number), "lab-2g2n", {GPU: "full"}).name for number in range(4)]
    _let_pods_wait(stage, names)
    slices = [
        item["metadata"]["name"]
        for item in stage.client.get(f"{RESOURCE}/resourceslices")["items"]
        if item["spec"].get("nodeName") in names
    ]
    pid = stage.leader().allocator.started_process().child.pid
    calls, used = _decisions(stage), cpu_seconds(pid)
    began = time.monotonic()
    for number in range(CHANGES):
        note = {"metadata": {"annotations": {"rig.drawbridge.dev/note": str(number)}}}
        stage.client.patch(f"/api/v1/nodes/{names[number % 4]}", note)
        stage.client.patch(stage.pod_path(f"holder-{number % 4}"), note)
        stage.client.patch(f"{RESOURCE}/resourceslices/{slices[number % len(slices)]}", note)
    took, share = time.monotonic() - began, cpu_seconds(pid) - used
    print_line(
        f"      {3 * CHANGES} changes in {took:.1f} s: {share:.2f} CPU s of the allocator,"
        f" {_decisions(stage) - calls:g} calls"
    )
    assert _decisions(stage) == calls
    # All of them still get a device when it is free.
    for number in range(4):
        stage.delete_pod(f"holder-{number}")
    stage.wait("pods use the devices", partial(running, stage, 8))


def _let_pods_wait(stage: BridgeStage, nodes: list[str]) -> None:
    """Use all devices, and create pods that wait for one."""
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    stage.template("two", claim_spec(request("gpu", GPU, count=2)))
    for number in range(len(nodes)):
        stage.run_pod(f"holder-{number}", templates={"gpu": "two"})
    for number in range(WAITING):
        stage.pod(f"waiting-{number}", templates={"gpu": "gpu"})
    for number in range(WAITING):
        stage.wait_unschedulable(f"waiting-{number}")


def _decisions(stage: BridgeStage) -> float:
    """Return how often the scheduler has asked about a pod."""
    return stage.leader().allocator.metric(CALLS, call="prefilter")
