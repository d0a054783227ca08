"""Scenarios: devices that must report a condition before the pod is bound, in bridge placement."""

import contextlib
import time
from collections.abc import Iterator
from functools import partial

from e2e.bridge.pair import Pair
from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.nodes.family import FAMILIES
from e2e.nodes.machine import Machine
from e2e.runner import print_line
from e2e.scenarios.bridge import running, told
from e2e.scenarios.objects import JSON, claim_spec, request

GPU = "gpu.nvidia.com"
ATTACHED, BROKEN = "fabric.example.com/attached", "fabric.example.com/broken"
CALLS = "drawbridge_allocator_calls_total"
# By default an attempt to bind waits for 110 s, and a device has 600 s.
WAIT_SECONDS, TIMEOUT_SECONDS = 2, 15
PATIENCE_SECONDS = 60.0


def add_device(stage: BridgeStage) -> str:
    """Add a node with a GPU that has to be attached, and a template; return the node."""
    machine = stage.node("a", "lab-2g2n")
    publish_devices(stage, machine, "gpu-0")
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    return machine.name


def publish_devices(stage: BridgeStage, machine: Machine, *names: str) -> None:
    """Publish some GPUs of a node, of which the first has to be attached."""
    layout = FAMILIES[GPU].publish(machine)
    conditions = {"bindingConditions": [ATTACHED], "bindingFailureConditions": [BROKEN]}
    layout = layout.without(layout.devices.keys() - set(names))
    stage.fleet.publish(layout.changed("gpu-0", **conditions))


@contextlib.contextmanager
def allocator_options(pair: Pair, *options: str) -> Iterator[None]:
    """Run the allocator of a pair with further options."""
    before = pair.allocator.words
    pair.allocator.words = [*before, *options]
    pair.restart_allocator()
    try:
        yield
    finally:
        pair.allocator.words = before
        pair.restart_allocator()


@bridge_scenario("full", since="1.36")
def a_pod_is_bound_when_its_device_is_attached(stage: BridgeStage) -> None:
    """A device that reports a failure instead is released."""
    add_device(stage)
    stage.pod("worker", templates={"gpu": "gpu"})
    first = stage.wait("the device is allocated", partial(allocated_claim, stage, "worker"))
    assert "nodeName" not in stage.get_pod("worker")["spec"]
    report_condition(stage, first, BROKEN)
    # The allocation is equal if it is of the same second, but nobody has reported its device.
    anew = stage.wait("it is allocated again", partial(allocated_claim, stage, "worker"))
    assert "nodeName" not in stage.get_pod("worker")["spec"]
    report_condition(stage, anew, ATTACHED)
    stage.wait_running("worker")


@bridge_scenario("full", since="1.36")
def a_pod_gets_another_device_than_the_one_that_failed(stage: BridgeStage) -> None:
    """The failed one is free as well, but penalised for a while."""
    node = add_device(stage)
    stage.pod("worker", templates={"gpu": "gpu"})
    first = stage.wait("a device is allocated", partial(allocated_claim, stage, "worker"))
    # Drivers publish in any order, so the other one comes later.
    publish_devices(stage, stage.fleet.machines[node], "gpu-0", "gpu-1")
    report_condition(stage, first, BROKEN)
    stage.wait_running("worker")
    (result,) = stage.allocated(first["metadata"]["name"])
    assert result["device"] == "gpu-1"


@bridge_scenario("full", since="1.36")
def a_pod_keeps_its_device_over_several_attempts_to_bind_it(stage: BridgeStage) -> None:
    """The allocation stays until the time-out. Then the device is released and allocated again."""
    add_device(stage)
    leader = stage.leader()
    limits = (f"--bind-wait={WAIT_SECONDS}", f"--binding-timeout={TIMEOUT_SECONDS}")
    with allocator_options(leader, *limits):
        stage.pod("patient", templates={"gpu": "gpu"})
        first = stage.wait("the device is allocated", partial(allocated_claim, stage, "patient"))
        missing = partial(told, stage, "patient", f"does not report {ATTACHED}")
        stage.wait("the first attempt ends", missing)
        stage.wait("another one begins", lambda: leader.allocator.metric(CALLS, call="bind") > 1)
        assert stage.get_claim(first["metadata"]["name"])["status"] == first["status"]
        stage.pod("other", templates={"gpu": "gpu"})
        stage.wait_unschedulable("other")
        report_condition(stage, first, ATTACHED)
        stage.wait_running("patient")

        stage.delete_pod("patient")
        lost = stage.wait("the other one has it", partial(allocated_claim, stage, "other"))
        late = partial(
            told, stage, "other", f"does not report {ATTACHED} after {TIMEOUT_SECONDS} s"
        )
        stage.wait("the device has no time left", late, 2.0 * TIMEOUT_SECONDS)
        anew = stage.wait("it is allocated again", partial(allocated_claim, stage, "other", lost))
        report_condition(stage, anew, ATTACHED)
        stage.wait_running("other")


@bridge_scenario("chaos", since="1.36")
def a_pod_leaves_a_node_that_was_selected_before_the_allocator_was_killed(
    stage: BridgeStage,
) -> None:
    """Its allocation is released at once: a binding that was sent before has no effect by then."""
    first = add_device(stage)
    leader = stage.leader()
    stage.pod("worker", templates={"gpu": "gpu"})
    stage.wait("the device is allocated", partial(allocated_claim, stage, "worker"))
    stage.client.patch(f"/api/v1/nodes/{first}", {"spec": {"unschedulable": True}})
    second = stage.node("b", "lab-2g2n", {GPU: "full"})
    leader.restart_allocator()
    began = time.monotonic()
    stage.wait("the pod runs", partial(running, stage, 1), PATIENCE_SECONDS)
    print_line(f"      {time.monotonic() - began:.0f} s until the pod runs on another node")
    worker = stage.get_pod("worker")
    assert worker["spec"]["nodeName"] == second.name
    conditions = [each["type"] for each in worker["status"]["conditions"]]
    assert "drawbridge.dev/released" in conditions, conditions


def allocated_claim(stage: BridgeStage, pod: str, before: JSON | None = None) -> JSON:
    """Return the claim of a pod once it has an allocation, another one than before, or {}."""
    claim = stage.get_claim(stage.generated_claim(pod))
    status, former = claim.get("status", {}), (before or {}).get("status", {})
    allocation = status.get("allocation")
    if not allocation or status.get("devices"):
        return {}
    return claim if allocation != former.get("allocation") else {}


def report_condition(stage: BridgeStage, claim: JSON, condition: str) -> None:
    """Report a condition of the device of a claim, as its driver does."""
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    true = {"type": condition, "status": "True", "reason": "Fabric", "message": ""}
    true["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    device = {key: result[key] for key in ("driver", "pool", "device")} | {"conditions": [true]}
    path = f"{stage.claim_path(claim['metadata']['name'])}/status"
    stage.client.patch(path, {"status": {"devices": [device]}})
