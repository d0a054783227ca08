"""Scenarios: another allocator writes an allocation that contradicts one of Drawbridge's.

It is planted: the finalizer, the allocation and the reservation, as a scheduler writes them.
"""

import time
from functools import partial

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.client import ApiError
from e2e.runner import print_line
from e2e.scenarios import forged
from e2e.scenarios.bridge_conditions import GPU, add_device, allocated_claim, publish_devices
from e2e.scenarios.objects import JSON, claim_spec, request

# What the allocator promises from the later write on, and how long a scenario waits for it.
PROMISED_SECONDS, WAIT_SECONDS = 2.0, 20.0
CONFLICTS = "drawbridge_allocator_conflicts"
DOUBLES = "drawbridge_allocator_double_allocations_total"
TAKEN_BACK = "drawbridge_allocator_allocations_taken_back_total"


def plant(stage: BridgeStage, node: str, device: str) -> JSON:
    """Allocate a device to the claim `rival`, whose pod no scheduler binds; return the claim."""
    stage.claim("rival", claim_spec(request("gpu", GPU)))
    pod = stage.pod("rival", claims={"gpu": "rival"}, schedulerName=forged.NOBODY)
    result = forged.device(GPU, node, device)
    return forged.allocate(stage, "rival", forged.Forgery(node, (result,)), [pod])


def withdraw(stage: BridgeStage) -> None:
    """Remove the rival and its allocation."""
    stage.delete_pod("rival")
    status = {"allocation": None, "reservedFor": None}
    stage.client.patch(f"{stage.claim_path('rival')}/status", {"status": status})


def events_of(stage: BridgeStage, claim: str, code: str) -> list[str]:
    """Return the messages of the events of a claim with a reason."""
    events = stage.client.get(stage.path("events"), fieldSelector=f"involvedObject.name={claim}")
    return [each["message"] for each in events["items"] if each["reason"] == code]


def names_both(stage: BridgeStage, claim: str, code: str) -> bool:
    """Whether an event of a claim names it and the rival."""
    both = (f"{stage.namespace}/{claim}", f"{stage.namespace}/rival")
    return any(all(each in text for each in both) for text in events_of(stage, claim, code))


def is_outdated(stage: BridgeStage, pod: JSON, node: str) -> bool:
    """Whether a binding to a node is refused that names this version of a pod."""
    names = ("namespace", "name", "uid", "resourceVersion")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {name: pod["metadata"][name] for name in names},
        "target": {"kind": "Node", "name": node},
    }
    try:
        stage.client.create(f"{stage.pod_path(pod['metadata']['name'])}/binding", binding)
    except ApiError as error:
        return error.code == 409
    return False


def say(began: float, what: str) -> None:
    """Print how long something took since the later write."""
    took = time.monotonic() - began
    kept = "" if took < PROMISED_SECONDS else f", more than {PROMISED_SECONDS:g} s"
    print_line(f"      {what} after {took:.2f} s{kept}")


@bridge_scenario("full", since="1.36")
def an_unbound_pod_gives_back_what_another_allocator_takes(stage: BridgeStage) -> None:
    """Its device has to be attached. The pod gets another one; the rival's claim stays as it is."""
    node = add_device(stage)
    stage.pod("worker", templates={"gpu": "gpu"})
    first = stage.wait("a device is allocated", lambda: allocated_claim(stage, "worker"))
    name, unbound = first["metadata"]["name"], stage.get_pod("worker")
    publish_devices(stage, stage.fleet.machines[node], "gpu-0", "gpu-1")
    leader = stage.leader().allocator
    before = leader.metric(TAKEN_BACK), leader.metric(DOUBLES)
    theirs = plant(stage, node, "gpu-0")
    began = time.monotonic()

    def given_back() -> bool:
        allocation = stage.get_claim(name).get("status", {}).get("allocation")
        return not allocation or allocation != first["status"]["allocation"]

    stage.wait("the device is given back", given_back, WAIT_SECONDS)
    say(began, "the device is given back")
    assert is_outdated(stage, unbound, node), "a binding that is sent late has an effect"
    (released,) = [
        each["message"]
        for each in stage.get_pod("worker")["status"]["conditions"]
        if each["type"] == "drawbridge.dev/released"
    ]
    assert f"{stage.namespace}/{name}" in released, released
    for claim, code in (
        (name, "AllocationTakenBack"),
        (name, "DeviceHeldTwice"),
        ("rival", "DeviceHeldTwice"),
    ):
        stage.wait(f"{code} of {claim}", partial(names_both, stage, claim, code))
    say(began, "all events exist")
    stage.wait_running("worker")
    (result,) = stage.allocated(name)
    assert result["device"] == "gpu-1"
    assert (leader.metric(TAKEN_BACK), leader.metric(DOUBLES)) == (before[0] + 1, before[1] + 1)
    assert leader.metric(CONFLICTS) == 0
    assert stage.get_claim("rival") == theirs
    withdraw(stage)


@bridge_scenario("full")
def a_bound_pod_keeps_what_another_allocator_takes(stage: BridgeStage) -> None:
    """The conflict is reported on both claims and in the metric, until the rival is deleted."""
    node = stage.run_on_new_node("worker")
    name = stage.generated_claim("worker")
    ours = stage.get_claim(name)
    leader = stage.leader().allocator
    before = leader.metric(TAKEN_BACK)
    theirs = plant(stage, node, ours["status"]["allocation"]["devices"]["results"][0]["device"])
    began = time.monotonic()
    both = {"holder": f"{stage.namespace}/{name}", "other": f"{stage.namespace}/rival"}
    stage.wait("the metric names both", lambda: leader.metric(CONFLICTS, **both) == 1)
    say(began, "the metric names both claims")
    for claim in (name, "rival"):
        stage.wait(f"event of {claim}", partial(names_both, stage, claim, "DeviceHeldTwice"))
    say(began, "both claims have the event")
    # Other pods are still placed, on the device that is left, and then nowhere.
    stage.run_pod("second", templates={"gpu": "gpu"})
    stage.pod("third", templates={"gpu": "gpu"})
    stage.wait_unschedulable("third")
    assert stage.get_claim(name) == ours
    assert stage.get_claim("rival") == theirs
    assert leader.metric(TAKEN_BACK) == before
    withdraw(stage)
    stage.wait("the conflict has ended", lambda: leader.metric(CONFLICTS) == 0)
