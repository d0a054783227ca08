"""Scenarios: one object that cannot be changed stops nobody else, in bridge placement."""

from functools import partial

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.client import ApiError
from e2e.scenarios.bridge_preemption import (
    FINALIZER,
    GPU,
    create_pods,
    create_priority,
    phases,
    run_all,
)
from e2e.scenarios.objects import claim_spec, request

POLICIES = "/apis/admissionregistration.k8s.io/v1"
MARK = {"drawbridge.dev/allocation": '{"allocator":"drawbridge"}'}
PATIENCE_SECONDS = 120.0


def freeze_claim(stage: BridgeStage, name: str) -> None:
    """Let a policy refuse each change of a claim of the stage."""
    rule = {
        "apiGroups": ["resource.k8s.io"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["resourceclaims"],
        "resourceNames": [name],
    }
    policy = {
        "metadata": {"name": stage.name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "message": "nobody changes this claim"}],
        },
    }
    binding = {
        "metadata": {"name": stage.name},
        "spec": {"policyName": stage.name, "validationActions": ["Deny"]},
    }
    stage.cluster_object(f"{POLICIES}/validatingadmissionpolicies", policy)
    stage.cluster_object(f"{POLICIES}/validatingadmissionpolicybindings", binding)


def _is_frozen(stage: BridgeStage, name: str) -> bool:
    """Whether the policy is in effect."""
    try:
        stage.client.patch(stage.claim_path(name), {"metadata": {"labels": {"frozen": "no"}}})
    except ApiError:
        return True
    return False


@bridge_scenario("full")
def a_mark_that_cannot_be_removed_does_not_stop_a_restarted_allocator(stage: BridgeStage) -> None:
    """Other pods start, and the claim has an event."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    create_pods(stage, "first", 1)
    stage.wait("the allocator leads", run_all(stage, "first", 1))
    frozen = f"{stage.name}-frozen"
    stage.claim(frozen, claim_spec(request("gpu", GPU)))
    stage.client.patch(stage.claim_path(frozen), {"metadata": {"annotations": MARK}})
    freeze_claim(stage, frozen)
    stage.wait("the claim is frozen", partial(_is_frozen, stage, frozen))
    leader = stage.leader()
    leader.allocator.kill()
    leader.start()
    create_pods(stage, "other", 1)
    stage.wait("the other pod runs", run_all(stage, "other", 1), PATIENCE_SECONDS)
    stage.wait(
        "the mark is reported",
        lambda: stage.leader().allocator.metric("drawbridge_allocator_writes_not_undone") == 1,
    )
    stage.placement.ignore_denials()


@bridge_scenario("full")
def a_victim_that_a_finalizer_keeps_is_replaced(stage: BridgeStage) -> None:
    """Another pod is evicted half a minute after the grace period of the first victim."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    high = create_priority(stage, "high", 1000)
    create_pods(stage, "low", 2, terminationGracePeriodSeconds=1)
    stage.wait("the node is full", run_all(stage, "low", 2))
    kept = {"metadata": {"finalizers": [FINALIZER]}}
    stage.client.patch(stage.pod_path("low-0"), kept)
    stage.client.patch(stage.pod_path("low-1"), kept)
    create_pods(stage, "high", 1, priorityClassName=high)
    stage.wait("a victim terminates", lambda: len(phases(stage, "low")) == 1)
    (left,) = phases(stage, "low")
    stage.client.patch(stage.pod_path(left), {"metadata": {"finalizers": None}})
    stage.wait("the preemptor runs", run_all(stage, "high", 1), PATIENCE_SECONDS)
    assert phases(stage, "low") == {}
    (other,) = {"low-0", "low-1"} - {left}
    stage.client.patch(stage.pod_path(other), {"metadata": {"finalizers": None}})


@bridge_scenario("full")
def a_preemptor_whose_node_is_cordoned_preempts_on_another_one(stage: BridgeStage) -> None:
    """Its first victim still terminates then."""
    names = [stage.node(suffix, "lab-2g2n", {GPU: "full"}).name for suffix in "ab"]
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    high = create_priority(stage, "high", 1000)
    create_pods(stage, "low", 4, terminationGracePeriodSeconds=300)
    stage.wait("the nodes are full", run_all(stage, "low", 4))
    for number in range(4):
        stage.client.patch(
            stage.pod_path(f"low-{number}"), {"metadata": {"finalizers": [FINALIZER]}}
        )
    create_pods(stage, "high", 1, priorityClassName=high)
    stage.wait("it is nominated", lambda: _nominated(stage) in names)
    first = _nominated(stage)
    stage.client.patch(f"/api/v1/nodes/{first}", {"spec": {"unschedulable": True}})
    (second,) = {*names} - {first}
    stage.wait("it is nominated to the other node", lambda: _nominated(stage) == second, 20)
    assert len(phases(stage, "low")) == 2
    for number in range(4):
        stage.client.patch(stage.pod_path(f"low-{number}"), {"metadata": {"finalizers": None}})
    stage.wait_running("high-0")
    assert stage.get_pod("high-0")["spec"]["nodeName"] == second


def _nominated(stage: BridgeStage) -> str:
    status = stage.get_pod("high-0")["status"]
    return str(status.get("nominatedNodeName", ""))
