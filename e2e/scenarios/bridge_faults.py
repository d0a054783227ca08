"""Scenarios: one object that cannot be changed stops nobody else, in bridge placement."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.client import ApiError
from e2e.runner import print_line
from e2e.scenarios.bridge_preemption import (
    GPU,
    create_pods,
    create_priority,
    phases,
    run_all,
)
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.owned_pools import FENCE, taint

POLICIES = "/apis/admissionregistration.k8s.io/v1"
NIC = "dra.net"
MARK = {"drawbridge.dev/allocation": '{"allocator":"drawbridge"}'}
LABEL_CHANGE: JSON = {"metadata": {"labels": {"frozen": "no"}}}
# A claim can get a mark and then no other change.
ONLY_MARKED = (
    "!has(request.subResource) && !(has(oldObject.metadata.annotations)"
    " && 'drawbridge.dev/allocation' in oldObject.metadata.annotations)"
)
NOT_FENCED = (
    "!has(object.spec.taints) || !object.spec.taints.exists(t, t.key == 'drawbridge.dev/owned')"
)
PATIENCE_SECONDS = 120.0
# A node that never unprepares.
SLOW_SECONDS = 3600.0
# While pods end, a refused preemptor asks again after 1, 2, 4 and 8 seconds, and then after 16.
ENDING_SECONDS = 20.0
MARKS, WRITERS, HOT = 3000, 16, 4


def refuse_updates(
    stage: BridgeStage, group: str, resource: str, names: list[str], allowed: str = "false"
) -> str:
    """Let a policy refuse updates of some objects, except allowed ones; return its path."""
    rule = {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": [resource, f"{resource}/status"],
        "resourceNames": names,
    }
    policy = {
        "metadata": {"name": stage.name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": allowed, "message": "nobody changes this object"}],
        },
    }
    binding = {
        "metadata": {"name": stage.name},
        "spec": {"policyName": stage.name, "validationActions": ["Deny"]},
    }
    stage.cluster_object(f"{POLICIES}/validatingadmissionpolicies", policy)
    stage.cluster_object(f"{POLICIES}/validatingadmissionpolicybindings", binding)
    return f"{POLICIES}/validatingadmissionpolicies/{stage.name}"


def _is_refused(stage: BridgeStage, path: str, change: JSON) -> bool:
    """Whether the policy refuses a change now, which is not stored."""
    try:
        stage.client.patch(path, change, dryRun="All")
    except ApiError:
        return True
    return False


def _is_marked(stage: BridgeStage, claim: str) -> bool:
    metadata = stage.get_claim(claim)["metadata"]
    return "drawbridge.dev/allocation" in metadata.get("annotations", {})


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
    refuse_updates(stage, "resource.k8s.io", "resourceclaims", [frozen])
    stage.wait(
        "the claim is frozen", partial(_is_refused, stage, stage.claim_path(frozen), LABEL_CHANGE)
    )
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
def a_write_that_cannot_be_undone_does_not_keep_the_devices_of_another_pod(
    stage: BridgeStage,
) -> None:
    """Both pods are deleted after a policy refused their allocations, and later the undo of one."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    names = [f"{stage.name}-stuck", f"{stage.name}-other"]
    policy = refuse_updates(stage, "resource.k8s.io", "resourceclaims", names, ONLY_MARKED)
    for name in names:
        stage.claim(name, claim_spec(request("gpu", GPU)))
    status = f"{stage.claim_path(names[1])}/status"
    no_users: JSON = {"status": {"reservedFor": []}}
    stage.wait("the policy is in effect", partial(_is_refused, stage, status, no_users))
    for name in names:
        stage.pod(name, claims={"gpu": name})
        stage.wait("the claim keeps its mark", partial(_is_marked, stage, name))
    for name in names:
        stage.delete_pod(name)
    spec = stage.client.get(policy)["spec"]
    spec["matchConstraints"]["resourceRules"][0]["resourceNames"] = names[:1]
    stage.client.patch(policy, {"spec": spec})
    began = time.monotonic()
    stage.wait("the mark of the other claim goes", lambda: not _is_marked(stage, names[1]), 60)
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    create_pods(stage, "late", 1)
    stage.wait_running("late-0")
    print_line(f"      {time.monotonic() - began:.1f} s until a pod runs on the device")
    assert _is_marked(stage, names[0])
    stage.placement.ignore_denials()


@bridge_scenario("full")
def a_node_that_cannot_be_tainted_does_not_stop_restarted_allocators(stage: BridgeStage) -> None:
    """They lead, and leave that node out."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    create_pods(stage, "first", 1)
    stage.wait("the allocator leads", run_all(stage, "first", 1))
    refused = stage.node_name("b")
    refuse_updates(stage, "", "nodes", [refused], NOT_FENCED)
    stage.node("b", "lab-2g2n", {GPU: "full"})
    fenced: JSON = {"spec": {"taints": [FENCE]}}
    path = f"/api/v1/nodes/{refused}"
    stage.wait("nobody can taint the node", partial(_is_refused, stage, path, fenced))
    taint(stage, refused)
    for pair in stage.placement.pairs:
        pair.restart_allocator()
    began = time.monotonic()
    create_pods(stage, "other", 2)
    stage.wait("one pod runs", run_all(stage, "other", 1), PATIENCE_SECONDS)
    print_line(f"      {time.monotonic() - began:.1f} s until a pod runs")
    (waiting,) = (name for name, phase in phases(stage, "other").items() if phase != "Running")
    stage.wait_unschedulable(waiting)
    stage.placement.ignore_denials()


@bridge_scenario("full")
def a_pod_whose_preemption_was_refused_gets_a_free_device_first(stage: BridgeStage) -> None:
    """Other pods have ended meanwhile, and pods of priority 0 wait for the same device."""
    drivers = {GPU: "full", NIC: None}
    full, other = (stage.node(suffix, "lab-2g2n", drivers).name for suffix in "ab")
    here, there = ({"kubernetes.io/hostname": name} for name in (full, other))
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    top, high = create_priority(stage, "top", 2000), create_priority(stage, "high", 1000)
    create_pods(stage, "top", 2, priorityClassName=top, nodeSelector=here)
    stage.wait("the node is full", run_all(stage, "top", 2))
    # The allocator is asked for victims only beside a pod with a lower priority and a device.
    stage.template("nic", claim_spec(request("nic", NIC)))
    stage.run_pod("nic", templates={"nic": "nic"}, nodeSelector=here)
    create_pods(stage, "low", 4, nodeSelector=here)
    create_pods(stage, "high", 1, priorityClassName=high, nodeSelector=here)
    for name in ("low-3", "high-0"):
        stage.wait_unschedulable(name)
    ended = time.monotonic() + ENDING_SECONDS
    while time.monotonic() < ended:
        create_pods(stage, "ends", 1, nodeSelector=there)
        stage.wait_running("ends-0")
        stage.delete_pod("ends-0")
    began = time.monotonic()
    stage.delete_pod("top-0")
    stage.wait("the pod with the high priority runs", run_all(stage, "high", 1), PATIENCE_SECONDS)
    print_line(f"      {time.monotonic() - began:.1f} s until it runs")
    assert list(phases(stage, "low").values()) == ["Pending"] * 4


@bridge_scenario("full")
def an_allocator_starts_beside_many_marks(stage: BridgeStage) -> None:
    """Thousands of forged marks, or a few that change all the time, do not keep it from leading."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    create_pods(stage, "first", 1)
    stage.wait("the allocator leads", run_all(stage, "first", 1))
    usual = _restart(stage)
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(partial(_create_marked, stage), range(MARKS)))
    beside_forged = _restart(stage)
    hot = [stage.claim_path(f"marked-{number}") for number in range(HOT)]
    ended = threading.Event()
    with ThreadPoolExecutor(HOT) as pool:
        writes = [pool.submit(_mark_again, stage, path, ended) for path in hot]
        try:
            beside_hot = _restart(stage)
        finally:
            ended.set()
        rate = sum(write.result() for write in writes)
    print_line(
        f"      until it leads: {usual}, beside {MARKS} forged marks {beside_forged},"
        f" beside {HOT} marks written {rate:.0f} times a second {beside_hot}"
    )
    create_pods(stage, "other", 1)
    stage.wait("a pod runs", run_all(stage, "other", 1), PATIENCE_SECONDS)


def _restart(stage: BridgeStage) -> str:
    """Kill the allocator that leads; return how long it takes to lead again, and to recover."""
    leader = stage.leader()
    leader.allocator.kill()
    began = time.monotonic()
    leader.start()
    lines = partial(leader.allocator.messages, "leading")
    (leads, *_) = stage.wait("it leads", lines, PATIENCE_SECONDS)
    took = time.monotonic() - began
    (built, *_) = leader.allocator.messages("decisions built")
    recovery = datetime.fromisoformat(leads["ts"]) - datetime.fromisoformat(built["ts"])
    return f"{took:.1f} s ({recovery.total_seconds():.1f} s for the recovery)"


def _create_marked(stage: BridgeStage, number: int) -> None:
    metadata = {"name": f"marked-{number}", "annotations": MARK}
    spec = claim_spec(request("gpu", GPU))
    stage.client.create(stage.claim_path(), {"metadata": metadata, "spec": spec})


def _mark_again(stage: BridgeStage, path: str, ended: threading.Event) -> float:
    """Write a mark until the end; return how often a second."""
    began, count = time.monotonic(), 0
    while not ended.is_set():
        count += 1
        labels = {"labels": {"written": f"{count}"}}
        stage.client.patch(path, {"metadata": {"annotations": MARK, **labels}})
    return count / (time.monotonic() - began)


@bridge_scenario("full")
def a_victim_whose_node_keeps_its_devices_is_replaced(stage: BridgeStage) -> None:
    """Another pod is evicted half a minute after the grace period of the first victim."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    high = create_priority(stage, "high", 1000)
    create_pods(stage, "low", 2, terminationGracePeriodSeconds=1)
    stage.wait("the node is full", run_all(stage, "low", 2))
    stage.fleet.driver(GPU).mood.slow_seconds = SLOW_SECONDS
    create_pods(stage, "high", 1, priorityClassName=high)
    stage.wait("a victim terminates", lambda: len(phases(stage, "low")) == 1)
    stage.wait("so does the other pod", lambda: phases(stage, "low") == {}, PATIENCE_SECONDS)
    assert phases(stage, "high") == {"high-0": "Pending"}
    stage.fleet.driver(GPU).mood.slow_seconds = 0
    stage.wait("the preemptor runs", run_all(stage, "high", 1), PATIENCE_SECONDS)


@bridge_scenario("full")
def a_preemptor_whose_node_is_cordoned_preempts_on_another_one(stage: BridgeStage) -> None:
    """Its first victim still terminates then."""
    names = [stage.node(suffix, "lab-2g2n", {GPU: "full"}).name for suffix in "ab"]
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    high = create_priority(stage, "high", 1000)
    create_pods(stage, "low", 4, terminationGracePeriodSeconds=300)
    stage.wait("the nodes are full", run_all(stage, "low", 4))
    stage.fleet.driver(GPU).mood.slow_seconds = SLOW_SECONDS
    create_pods(stage, "high", 1, priorityClassName=high)
    stage.wait("it is nominated", lambda: _nominated(stage) in names)
    first = _nominated(stage)
    stage.client.patch(f"/api/v1/nodes/{first}", {"spec": {"unschedulable": True}})
    (second,) = {*names} - {first}
    stage.wait("it is nominated to the other node", lambda: _nominated(stage) == second, 20)
    assert len(phases(stage, "low")) == 2
    stage.fleet.driver(GPU).mood.slow_seconds = 0
    stage.wait_running("high-0")
    assert stage.get_pod("high-0")["spec"]["nodeName"] == second


def _nominated(stage: BridgeStage) -> str:
    status = stage.get_pod("high-0")["status"]
    return str(status.get("nominatedNodeName", ""))
