"""Scenarios: nodes change between the default scheduler and Drawbridge while pods are scheduled."""

from functools import partial
from typing import Any

from e2e.bridge.placement import FENCE, NAME, OWNED, BridgeStage, bridge_scenario
from e2e.controlplane.processes import suspended
from e2e.installed.installation import NAMESPACE
from e2e.nodes.fleet import NodePlan
from e2e.scenarios.bridge import running
from e2e.scenarios.bridge_stalls import pass_time
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.owned_pools import taints
from e2e.scenarios.stage import LABEL

GPU = "gpu.nvidia.com"
DEFAULT: dict[str, Any] = {"schedulerName": "default-scheduler", "tolerations": []}
NODES, PODS = 6, 48
# A process that is stopped longer than its Lease lasts does not lead afterwards.
STOPPED_SECONDS = 4.0
# The settle time, and until the controller and the scheduler have tried again.
SWITCH_SECONDS = 60.0
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}"


def add_nodes(stage: BridgeStage, *, owned: bool) -> list[str]:
    """Add nodes with 8 GPUs each, and a template for one."""
    labels = {LABEL: stage.name, **(OWNED if owned else {})}
    taints = (FENCE,) if owned else ()
    names = [stage.node_name(str(number)) for number in range(NODES)]
    stage.fleet.add_all(
        NodePlan(name, "dgx-a100", {GPU: "full"}, labels, {}, taints) for name in names
    )
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    return names


def change_owner(stage: BridgeStage, names: list[str], *, owned: bool) -> None:
    """Label nodes, or remove the label."""
    labels = OWNED if owned else dict.fromkeys(OWNED)
    for name in names:
        stage.client.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})


def create_pods(stage: BridgeStage, kind: str, count: int = PODS, **spec: Any) -> None:  # noqa: ANN401  # goes to pod_spec
    """Create pods with one GPU each."""
    for number in range(count):
        stage.pod(f"{kind}-{number}", templates={"gpu": "gpu"}, **spec)


@bridge_scenario("full")
def nodes_become_owned_while_the_default_scheduler_binds_pods(stage: BridgeStage) -> None:
    """It has selected devices and stands still; afterwards it allocates them, unaware of the taint.

    Every device has one owner.
    """
    names = add_nodes(stage, owned=False)
    create_pods(stage, "theirs", **DEFAULT)
    stage.wait("a pod has its device", stage.allocated_claims)
    with suspended(stage.processes.processes["kube-scheduler"]):
        change_owner(stage, names, owned=True)
        stage.wait("taints", lambda: all(FENCE in taints(stage, name) for name in names))
        create_pods(stage, "ours")
        pass_time(stage, STOPPED_SECONDS)
    stage.wait("all devices are used", partial(running, stage, PODS), SWITCH_SECONDS)
    assert stage.check_allocations() == PODS


@bridge_scenario("full")
def nodes_return_while_the_allocator_binds_pods(stage: BridgeStage) -> None:
    """It has reserved devices and stands still; afterwards it allocates them.

    Every device has one owner.
    """
    names = add_nodes(stage, owned=True)
    leader = stage.leader()
    create_pods(stage, "ours")
    stage.wait("a pod has its device", stage.allocated_claims)
    with suspended(leader.allocator.started_process()):
        change_owner(stage, names, owned=False)
        create_pods(stage, "theirs", **DEFAULT)
        pass_time(stage, STOPPED_SECONDS)
    # It can have reserved all of them, so that nobody waits for the nodes to return.
    stage.wait("all devices are used", partial(running, stage, PODS), SWITCH_SECONDS)
    stage.wait(
        "no node has the taint",
        lambda: not any(FENCE in taints(stage, name) for name in names),
        SWITCH_SECONDS,
    )
    assert stage.check_allocations() == PODS


@bridge_scenario("full")
def a_node_of_others_with_the_name_of_an_owned_one_waits(stage: BridgeStage) -> None:
    """Others get its devices when every allocator knows that the owned node is gone."""
    name = stage.node_name("a")
    labels = {LABEL: stage.name, **OWNED}
    stage.fleet.add_all([NodePlan(name, "lab-2g2n", {GPU: "full"}, labels, {}, (FENCE,))])
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    create_pods(stage, "ours", 1)
    stage.wait_running("ours-0")
    stage.delete_pod("ours-0")
    stage.fleet.remove([name])
    stage.fleet.add(name, "lab-2g2n", {GPU: "full"}, {LABEL: stage.name})
    stage.wait("the taint", lambda: FENCE in taints(stage, name))
    create_pods(stage, "theirs", 1, **DEFAULT)
    stage.wait("theirs runs", partial(running, stage, 1), SWITCH_SECONDS)
    assert FENCE not in taints(stage, name)
    assert stage.check_allocations() == 1


def _requires(stage: BridgeStage) -> bool:
    """Whether the Lease of the scheduler says what an allocator has to know."""
    annotations = stage.client.get(LEASE)["metadata"].get("annotations") or {}
    return "drawbridge.dev/required-versions" in annotations


@bridge_scenario("full")
def nodes_return_although_somebody_replaces_the_lease(stage: BridgeStage) -> None:
    """A scheduler takes a Lease that has no holder, and it requires again what it required."""
    names = add_nodes(stage, owned=True)
    stage.leader()
    change_owner(stage, names[1:], owned=False)
    stage.wait("an allocator has to know it", lambda: _requires(stage))
    stage.client.delete(LEASE)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {}}
    named = {"metadata": {"name": NAME}, **lease}
    stage.client.create(LEASE.rpartition("/")[0], named)
    stage.wait("an allocator has to know it", lambda: _requires(stage))
    stage.wait(
        "no node has the taint",
        lambda: not any(FENCE in taints(stage, name) for name in names[1:]),
        SWITCH_SECONDS,
    )
    create_pods(stage, "ours", 1)
    stage.wait_running("ours-0")


@bridge_scenario("full")
def a_restart_of_the_default_scheduler_ends_a_chain_of_double_allocations(
    stage: BridgeStage,
) -> None:
    """It keeps a set of allocated devices, from which the end of any holder removes the device."""
    name = stage.node_name("a")
    stage.fleet.add(name, "lab-2g2n", {GPU: "full"}, {LABEL: stage.name})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    for pod in ("other", "first"):
        create_pods(stage, pod, 1, **DEFAULT)
        stage.wait_running(f"{pod}-0")
    allocation = _allocation(stage, "first-0")
    _give_again(stage, allocation)
    stage.wait("it is reported", lambda: "DeviceHeldTwice" in _reasons(stage, "second"))
    last = "first-0"
    for pod in ("third", "fourth"):
        # The other holder runs on.
        stage.delete_pod(last)
        create_pods(stage, pod, 1, **DEFAULT)
        _wait_bound(stage, f"{pod}-0")
        assert _allocation(stage, f"{pod}-0")["devices"] == allocation["devices"]
        last = f"{pod}-0"
    stage.delete_pod(last)
    plane = stage.processes
    plane.processes["kube-scheduler"].kill()
    plane.start_scheduler("kube-scheduler", {})
    create_pods(stage, "fifth", 1, **DEFAULT)
    stage.wait_unschedulable("fifth-0")
    assert {each.code for each in stage.violations()}
    assert stage.check_allocations() == 2


def _allocation(stage: BridgeStage, pod: str) -> JSON:
    claim = stage.get_claim(stage.generated_claim(pod))
    allocation: JSON = claim["status"]["allocation"]
    return allocation


def _give_again(stage: BridgeStage, allocation: JSON) -> None:
    """Allocate devices a second time, as a scheduler does that is behind, and bind the pod."""
    stage.claim("second", claim_spec(request("gpu", GPU)))
    status = {"status": {"allocation": allocation}}
    stage.client.patch(f"{stage.claim_path('second')}/status", status)
    stage.pod("second", claims={"gpu": "second"}, **DEFAULT)
    _wait_bound(stage, "second")


def _wait_bound(stage: BridgeStage, pod: str) -> None:
    """Wait until a pod has a node; the driver refuses to prepare a device for a second claim."""
    stage.wait(f"pod {pod} is bound", lambda: stage.get_pod(pod)["spec"].get("nodeName"))


def _reasons(stage: BridgeStage, name: str) -> str:
    return "\n".join(stage.events(name))
