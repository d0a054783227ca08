"""Scenarios: pods of bridge placement get their devices from Drawbridge's allocator."""

from functools import partial

from e2e.bridge.placement import SCHEDULER, TOLERATION, BridgeStage, bridge_scenario
from e2e.installed.installation import set_mode, wait_for_facts
from e2e.scenarios import stock
from e2e.scenarios.objects import claim_spec, request

GPU = "gpu.nvidia.com"


@bridge_scenario("smoke")
def a_legacy_pod_gets_its_gpu_and_releases_it(stage: BridgeStage) -> None:
    """Admission moves it, the allocator selects the device that the driver prepares."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    set_mode(stage, "enforce")
    body = stage.legacy_pod("worker", 1)
    wait_for_facts(stage, stage.placement.cluster, body)
    stage.client.create(stage.pod_path(), body)
    running = stage.wait_running("worker")
    assert running["spec"]["schedulerName"] == SCHEDULER
    assert TOLERATION in running["spec"]["tolerations"]
    (result,) = stage.allocated(stage.generated_claim("worker"))
    assert stage.fleet.held_by(running) == [f"{GPU}/{machine.name}/{result['device']}"]
    assert stage.check_allocations() == 1
    stage.delete_pod("worker")
    stage.wait("unprepared", lambda: not stage.fleet.prepared(GPU, machine.name))
    stage.wait("the claim is gone", lambda: not stage.allocated_claims())


@bridge_scenario("full")
def a_pod_without_claims_needs_no_allocator(stage: BridgeStage) -> None:
    """It is bound while no allocator runs. A pod with a claim waits for the allocator."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    leader = stage.leader()
    leader.allocator.kill()
    stage.run_pod("plain")
    stage.pod("worker", templates={"gpu": "gpu"})
    stage.wait("the pod is refused", partial(told, stage, "worker", "allocator not reachable"))
    leader.start()
    stage.wait_running("worker")


def told(stage: BridgeStage, name: str, text: str) -> bool:
    """Whether the condition of a pod has this text."""
    conditions = stage.get_pod(name).get("status", {}).get("conditions", ())
    return any(text in entry.get("message", "") for entry in conditions)


@bridge_scenario("smoke")
def a_pod_that_waits_gets_a_released_device(stage: BridgeStage) -> None:
    """The allocator wakes it."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("both", claim_spec(request("gpu", GPU, count=2)))
    stage.template("one", claim_spec(request("gpu", GPU)))
    stage.run_pod("first", templates={"gpu": "both"})
    stage.pod("second", templates={"gpu": "one"})
    stage.wait_unschedulable("second")
    stage.delete_pod("first")
    stage.wait_running("second")


@bridge_scenario("smoke")
def a_published_device_wakes_the_pod_that_waits_for_it(stage: BridgeStage) -> None:
    """No event of the scheduler itself does: a ResourceSlice wakes nobody."""
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    stage.pod("worker", templates={"gpu": "gpu"})
    stage.wait_unschedulable("worker")
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.wait_running("worker")


def running(stage: BridgeStage, count: int) -> bool:
    """Whether so many pods run."""
    pods = stage.client.get(stage.pod_path())["items"]
    return [pod["status"].get("phase") for pod in pods].count("Running") == count


def _play_as_well(suite: str, since: str, *names: str) -> None:
    """Register scenarios of the stock scheduler for bridge placement."""
    for name in names:
        bridge_scenario(suite, since)(getattr(stock, name))


_play_as_well(
    "smoke",
    "1.34",
    "a_claim_with_a_selector_is_allocated_prepared_and_released",
    "a_deployment_is_scaled_up_and_down",
    "a_gpu_and_a_nic_of_one_pcie_root_are_allocated_together",
    "pods_of_one_claim_share_its_devices",
)


_play_as_well(
    "full",
    "1.36",
    "a_device_taint_rule_prevents_allocation_until_deleted",
    "claims_share_a_device_within_its_capacity",
    "partitions_of_a_gpu_consume_its_counters",
)
