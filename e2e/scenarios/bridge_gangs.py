"""Scenarios: the members of gangs get devices together or not at all, in bridge placement.

Since 1.36 the scheduler has a cycle for a PodGroup. On 1.35 its members wait at Permit for each
other.
1.34 has no gangs: the kube-scheduler of the rig has a Permit plugin for groups of Coscheduling.
"""

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.plane import CONTROLLERS, Options
from e2e.installed.installation import set_mode, wait_for_facts
from e2e.runner import print_line
from e2e.scenarios.bridge_preemption import create_pods, create_priority, phases, run_all
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.registry import RIGS, scenario
from e2e.scenarios.stage import Stage

GPU = "gpu.nvidia.com"
RIG = "gangs"
VERSIONS = {"1.37": "v1beta1", "1.36": "v1alpha2", "1.35": "v1alpha1"}
# Those with PodGroups, and not groups in a Workload.
POD_GROUPS = ("1.37", "1.36")
# The labels of the plugin Coscheduling.
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
MINIMUM_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
ROUNDS = 3
MEMBERS = 4
PATIENCE_SECONDS = 90.0


def gang_options(version: str) -> Options:
    """Return a control plane with the gates for gangs, which are off, or the plugin Quorum."""
    if version not in VERSIONS:
        return Options(version=version, quorum=True)
    gates = {"GenericWorkload": True}
    if version != "1.37":
        gates |= {"GangScheduling": True}
    if version in POD_GROUPS:
        gates |= {"DRADeviceTaintRules": True, "DRAWorkloadResourceClaims": True}
    return Options(
        version=version,
        gates=gates,
        runtime={
            f"scheduling.k8s.io/{VERSIONS[version]}": True,
            **({"resource.k8s.io/v1beta2": True} if version == "1.36" else {}),
        },
        controllers=(
            *CONTROLLERS,
            *(["podgroup-protection-controller"] if version in POD_GROUPS else []),
        ),
    )


RIGS[RIG] = gang_options


def create_group(stage: Stage, name: str, minimum: int, priority: str = "") -> JSON:
    """Create a gang, and return the fields that make a pod its member.

    Since 1.37 the members must have the priority of the group.
    """
    if stage.version not in VERSIONS:
        return {"metadata": {"labels": {GROUP_LABEL: name, MINIMUM_LABEL: f"{minimum}"}}}
    version = VERSIONS[stage.version]
    api = f"/apis/scheduling.k8s.io/{version}"
    policy = {"gang": {"minCount": minimum}}
    if stage.version in POD_GROUPS:
        body: JSON = {"kind": "PodGroup", "spec": {"schedulingPolicy": policy}}
        if stage.version == "1.37" and priority:
            body["spec"]["priorityClassName"] = priority
        kind, member = "podgroups", {"schedulingGroup": {"podGroupName": name}}
    else:
        body = {"kind": "Workload", "spec": {"podGroups": [{"name": "all", "policy": policy}]}}
        kind, member = "workloads", {"workloadRef": {"name": name, "podGroup": "all"}}
    body |= {"apiVersion": f"scheduling.k8s.io/{version}", "metadata": {"name": name}}
    stage.client.create(stage.path(kind, "", api), body)
    return {"spec": member}


def create_member(stage: Stage, body: JSON, member: JSON) -> JSON:
    """Create a pod as a member of a gang."""
    body["spec"] |= member.get("spec", {})
    body["metadata"].setdefault("labels", {}).update(member.get("metadata", {}).get("labels", {}))
    return stage.client.create(stage.pod_path(), body)


def create_gang(stage: Stage, name: str, size: int, **spec: object) -> list[str]:
    """Create a gang whose members, all needed, have one GPU each; return their names."""
    priority = spec.get("priorityClassName", "")
    member = create_group(stage, name, size, f"{priority}")
    names = [f"{name}-{number}" for number in range(size)]
    for each in names:
        create_member(stage, stage.pod_object(each, templates={"gpu": "gpu"}, **spec), member)
    return names


def count_bound(stage: Stage, names: Collection[str]) -> int:
    """Return how many of these pods have a node."""
    pods = stage.client.get(stage.pod_path())["items"]
    return sum(
        bool(pod["spec"].get("nodeName")) and "deletionTimestamp" not in pod["metadata"]
        for pod in pods
        if pod["metadata"]["name"] in names
    )


def all_bound(stage: Stage, names: Collection[str]) -> Callable[[], bool]:
    """Return whether all of these pods have a node."""
    return lambda: count_bound(stage, names) == len(names)


def create_sharing_gang(
    stage: Stage, name: str, size: int, template: str, own: JSON | None = None
) -> tuple[JSON, list[str]]:
    """Create a PodGroup with a claim that its members share; each can have its `own` as well.

    Return the PodGroup, and the names of the members.
    """
    api = f"scheduling.k8s.io/{VERSIONS[stage.version]}"
    group: JSON = {
        "apiVersion": api,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": size}},
            "resourceClaims": [{"name": "shared", "resourceClaimTemplateName": template}],
        },
    }
    made = stage.client.create(stage.path("podgroups", "", f"/apis/{api}"), group)
    names = [f"{name}-{number}" for number in range(size)]
    for member in names:
        claims = {"own": member} if own else {}
        if own:
            stage.claim(member, own)
        body = stage.pod_object(member, templates={"shared": template}, claims=claims)
        create_member(stage, body, {"spec": {"schedulingGroup": {"podGroupName": name}}})
    return made, names


def play_claim_of_group(stage: Stage) -> None:
    """Let members share the claim of their PodGroup, which is released with the group."""
    stage.node("a", "dgx-a100", {GPU: "full"})
    stage.template("all", claim_spec(request("gpu", GPU, count=8)))
    started = time.monotonic()
    made, names = create_sharing_gang(stage, "g", MEMBERS, "all")
    stage.wait("the group runs", run_all(stage, "g-", MEMBERS), PATIENCE_SECONDS)
    print_line(f"      {MEMBERS} pods with one claim run after {time.monotonic() - started:.1f} s")
    (claim,) = stage.client.get(stage.claim_path())["items"]
    reference = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g"}
    assert claim["status"]["reservedFor"] == [{**reference, "uid": made["metadata"]["uid"]}]
    delete_pods(stage, names[1:])
    stage.pod("other", templates={"gpus": "all"})
    stage.wait_unschedulable("other")
    assert stage.get_claim(claim["metadata"]["name"])["status"] == claim["status"]
    delete_pods(stage, names[:1])
    api = f"/apis/scheduling.k8s.io/{VERSIONS[stage.version]}"
    stage.client.delete(f"{stage.path('podgroups', '', api)}/g")
    stage.wait("the devices are free for others", all_bound(stage, ["other"]), PATIENCE_SECONDS)


def _any_bound(stage: Stage, gangs: Mapping[str, Collection[str]]) -> bool:
    return any(count_bound(stage, each) == len(each) for each in gangs.values())


def group_condition(stage: Stage, name: str) -> tuple[str, str]:
    """Return the status of the condition of a PodGroup, and its message."""
    path = stage.path("podgroups", name, f"/apis/scheduling.k8s.io/{VERSIONS[stage.version]}")
    conditions = stage.client.get(path).get("status", {}).get("conditions", [])
    return next(((each["status"], each.get("message", "")) for each in conditions), ("", ""))


def told(stage: Stage, name: str) -> str:
    """Return why a pod is not scheduled."""
    conditions = stage.get_pod(name)["status"].get("conditions", [])
    return next((each.get("message", "") for each in conditions if each["status"] == "False"), "")


def delete_pods(stage: Stage, names: Collection[str]) -> None:
    """Delete pods, and wait until their node has confirmed it."""
    for name in names:
        stage.client.delete(stage.pod_path(name), grace=None)
    for name in names:
        stage.wait_gone(stage.pod_path(name))


@bridge_scenario("full", rig=RIG)
def a_gang_of_legacy_pods_runs(stage: BridgeStage) -> None:
    """Admission keeps the group of a pod that it translates."""
    stage.node("a", "dgx-a100", {GPU: "full"})
    set_mode(stage, "enforce")
    wait_for_facts(stage, stage.placement.cluster, stage.legacy_pod("probe", 1))
    member = create_group(stage, "g", 4)
    started = time.monotonic()
    for number in range(4):
        create_member(stage, stage.legacy_pod(f"g-{number}", 1), member)
    stage.wait("the gang runs", run_all(stage, "g-", 4))
    print_line(f"      4 legacy pods run after {time.monotonic() - started:.1f} s")


@bridge_scenario("full", rig=RIG)
def one_of_two_gangs_gets_all_devices(stage: BridgeStage) -> None:
    """Their members are created in turns. The other gang follows as a whole."""
    stage.node("a", "dgx-a100", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    for number in range(ROUNDS):
        groups = {f"{each}{number}": create_group(stage, f"{each}{number}", 8) for each in "ab"}
        gangs: dict[str, list[str]] = {name: [] for name in groups}
        started = time.monotonic()
        for index in range(8):
            for name, member in groups.items():
                gangs[name].append(f"{name}-{index}")
                body = stage.pod_object(f"{name}-{index}", templates={"gpu": "gpu"})
                create_member(stage, body, member)
        stage.wait("a gang is bound", partial(_any_bound, stage, gangs))
        first = time.monotonic() - started
        winner = max(gangs, key=lambda each: count_bound(stage, gangs[each]))
        (other,) = gangs.keys() - {winner}
        assert count_bound(stage, gangs[other]) == 0, "the other gang is partly bound"
        stage.wait("it runs", run_all(stage, f"{winner}-", 8))
        delete_pods(stage, gangs[winner])
        freed = time.monotonic()
        stage.wait("the other gang is bound", all_bound(stage, gangs[other]), PATIENCE_SECONDS)
        print_line(
            f"      round {number}: one gang is bound after {first:.1f} s, the other one "
            f"{time.monotonic() - freed:.1f} s after the first was deleted"
        )
        stage.wait("it runs", run_all(stage, f"{other}-", 8))
        delete_pods(stage, gangs[other])


@bridge_scenario("full", since="1.36", rig=RIG)
def a_gang_that_is_scheduled_is_bound_beside_single_pods(stage: BridgeStage) -> None:
    """Pods that wait for devices get none between the two reservations of a member."""
    stage.node("a", "dgx-a100", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    stage.template("eight", claim_spec(request("gpu", GPU, count=8)))
    for number in range(ROUNDS):
        stage.run_pod("holder", templates={"gpu": "eight"})
        gang = create_gang(stage, f"g{number}", 8)
        stage.wait_unschedulable(gang[0])
        singles = create_pods(stage, f"single{number}", 4)
        for name in singles:
            stage.wait_unschedulable(name)
        delete_pods(stage, ["holder"])
        freed = time.monotonic()
        stage.wait("the gang is bound", all_bound(stage, gang), PATIENCE_SECONDS)
        took = time.monotonic() - freed
        assert count_bound(stage, singles) == 0
        delete_pods(stage, gang)
        stage.wait("the single pods are bound", all_bound(stage, singles))
        print_line(f"      round {number}: the gang is bound {took:.1f} s after 8 GPUs are free")
        delete_pods(stage, singles)


@bridge_scenario("full", rig=RIG)
def a_gang_that_cannot_fit_evicts_nobody(stage: BridgeStage) -> None:
    """Four of eight pods have a lower priority than a gang of six."""
    stage.node("a", "dgx-a100", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    high, keep = create_priority(stage, "high", 1000), create_priority(stage, "keep", 5000)
    create_pods(stage, "low", 4)
    create_pods(stage, "keep", 4, priorityClassName=keep)
    stage.wait("the node is full", run_all(stage, "", 8))
    gang = create_gang(stage, "g", 6, priorityClassName=high)
    fits = "4 of 6 members of the group fit"

    def is_told() -> bool:
        # Since 1.37, preemption for a PodGroup has its reason there, and no longer at a pod.
        of_group = [group_condition(stage, "g")[1]] if stage.version == "1.37" else []
        return any(fits in text for text in (*of_group, *(told(stage, name) for name in gang)))

    stage.wait("the gang is told what is missing", is_told)
    watched = time.monotonic() + 5
    while time.monotonic() < watched:
        assert len(phases(stage, "low")) == 4, "a pod was evicted for a gang that cannot fit"
        stage.client.get(stage.pod_path())
    assert count_bound(stage, gang) == 0


@bridge_scenario("full", rig=RIG)
def a_gang_evicts_what_it_needs_and_runs(stage: BridgeStage) -> None:
    """Four of eight pods have a lower priority than a gang of four."""
    for suffix in "ab":
        stage.node(suffix, "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    high = create_priority(stage, "high", 1000)
    create_pods(stage, "low", 4)
    stage.wait("the nodes are full", run_all(stage, "low", 4))
    gang = create_gang(stage, "g", 3, priorityClassName=high)
    started = time.monotonic()
    stage.wait("the gang runs", run_all(stage, "g-", 3), PATIENCE_SECONDS)
    took, left = time.monotonic() - started, phases(stage, "low")
    print_line(f"      the gang runs after {took:.1f} s, {len(left)} of 4 stay")
    assert len(left) == 1, left
    assert count_bound(stage, gang) == 3


@bridge_scenario("full", since="1.36", rig=RIG)
def the_members_of_a_group_share_its_claim(stage: BridgeStage) -> None:
    """The claim is reserved for the PodGroup once."""
    play_claim_of_group(stage)


@bridge_scenario("full", since="1.36", rig=RIG)
def members_get_devices_beside_the_claim_of_their_group(stage: BridgeStage) -> None:
    """A node has enough for what they share and for each; too many keep nothing from others."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    large = stage.node("b", "dgx-a100", {GPU: "full"})
    own = claim_spec(request("gpu", GPU))
    stage.template("gpu", own)
    _, names = create_sharing_gang(stage, "g", MEMBERS, "gpu", own)
    stage.wait("the group runs", run_all(stage, "g-", MEMBERS), PATIENCE_SECONDS)
    assert {stage.get_pod(name)["spec"]["nodeName"] for name in names} == {large.name}
    # Three devices are left there, and two on the other node.
    create_sharing_gang(stage, "h", MEMBERS, "gpu", own)

    def is_refused() -> bool:
        told = stage.get_pod("h-0").get("status", {}).get("conditions", ())
        return any(f"0 of {MEMBERS} members of the group fit" in each["message"] for each in told)

    stage.wait("the other group is refused as a whole", is_refused)
    create_pods(stage, "alone", 5)
    stage.wait("pods behind it run", run_all(stage, "alone", 5), PATIENCE_SECONDS)
    delete_pods(stage, names)
    delete_pods(stage, [f"alone-{number}" for number in range(5)])
    stage.wait("the other group waits for its node", run_all(stage, "h-", MEMBERS), 120.0)


@scenario("full", since="1.36", rig=RIG)
def the_members_of_a_group_share_its_claim_in_tree(stage: Stage) -> None:
    """The same with the scheduler and the allocator of Kubernetes."""
    play_claim_of_group(stage)
