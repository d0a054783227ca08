"""Device quotas in the decisions about gangs: which nodes, members and victims they leave."""

import msgspec
import pytest

from allocator.scheduler.protocol import (
    GroupMember,
    GroupReference,
    PotentialVictim,
    PreemptionNode,
    PreemptRequest,
    PreFilterGroupRequest,
    PreFilterReply,
)
from drawbridge.dra.device_quotas import DeviceQuota
from drawbridge.dra.quantity import from_json
from drawbridge.dra.slices import Slice
from tests.allocator.clusters import (
    Cluster,
    Plain,
    allocation_on,
    ask_group,
    claim,
    codes,
    gpu_slice,
    pod,
)
from tests.allocator.test_quotas import BIG, DEVICES, MEMORY, limit, used

FEW = {"memory": {"value": "40Gi"}}


def big_and_small() -> list[Slice]:
    """A node whose device has twice the memory of that of another one."""
    return [gpu_slice("n1", 1, capacity=BIG), gpu_slice("n2", 1, capacity=FEW)]


def member(cluster: Cluster, uid: str, *claims: Plain, **fields: object) -> GroupMember:
    """A member with one claim, or with these."""
    own = claims or (claim(f"c-{uid}"),)
    raw = tuple(msgspec.Raw(msgspec.json.encode(each)) for each in own)
    return GroupMember(pod=cluster.pod(uid, **fields), claims=raw)


def ask(cluster: Cluster, asking: str, *members: GroupMember, least: int) -> PreFilterReply:
    """Ask about a gang for one of its members."""
    group = GroupReference(key="default/g", min_count=least)
    request = PreFilterGroupRequest(pod_uid=asking, group=group, members=members)
    return ask_group(cluster.decisions, request, cluster.now)


def test_a_gang_takes_another_node_if_the_first_one_has_too_much_memory() -> None:
    cluster = Cluster(*big_and_small(), quotas=[limit({MEMORY: "40Gi"})], n1=0, n2=0)
    reply = cluster.ask_group("default/g", "m0")
    assert [each.node for each in reply.fit] == ["n2"]
    assert used(cluster) == ["40Gi/40Gi"]


def test_a_gang_for_which_every_node_has_too_much_memory_is_told_the_quota() -> None:
    slices = [gpu_slice(name, 1, capacity=BIG) for name in ("n1", "n2")]
    cluster = Cluster(*slices, quotas=[limit({MEMORY: "40Gi"})], n1=0, n2=0)
    reply = cluster.ask_group("default/g", "m0", priority=9)
    assert codes(reply) == ["DeviceQuotaUsedUp"]
    assert not reply.preemptible


@pytest.mark.parametrize("small", ["n1", "n2"])
def test_a_gang_evicts_pods_for_devices_for_which_its_quota_has_room(small: str) -> None:
    own = DeviceQuota("q", lambda name, _: name == "default", {}, {MEMORY: from_json("40Gi")})
    slices = (gpu_slice(n, 1, capacity=FEW if n == small else BIG) for n in ("n1", "n2"))
    cluster, nodes = Cluster(*slices, quotas=[own], n1=0, n2=0), list[PreemptionNode]()
    for name in ("n1", "n2"):
        held = allocation_on(name, 0)
        cluster.add_claim(claim(f"c-{name}", allocation=held, pods=[f"v-{name}"], namespace="o"))
        cluster.add(pod(f"v-{name}", f"c-{name}", node=name, namespace="o"))
        listed = (PotentialVictim(uid=f"v-{name}", priority=0),)
        nodes.append(PreemptionNode(node=name, pods=listed, running=(f"v-{name}",)))
    assert codes(cluster.ask_group("default/g", "m0", priority=9)) == ["GangTooLarge"]
    request = PreemptRequest(pod_uid="m0", nodes=tuple(nodes))
    reply = cluster.decisions.preempt(request, cluster.now)
    assert [each.victims for each in reply.evictions] == [(f"v-{small}",)]


@pytest.mark.parametrize("beyond", ["m0", "m3"])
def test_members_that_fit_nowhere_take_no_room_in_a_quota_from_others(beyond: str) -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "2"})], n1=2)
    uids = ("m0", "m1", "m2", "m3")
    elsewhere = {beyond: {"name": "absent"}, "m1": {"name": "absent"}}
    fitting = [uid for uid in uids if uid not in elsewhere]
    members = (member(cluster, uid, nodeSelector=elsewhere.get(uid, {})) for uid in uids)
    reply = ask(cluster, fitting[0], *members, least=2)
    assert [each.node for each in reply.fit] == ["n1"]
    assert used(cluster) == ["2/2"]


@pytest.mark.parametrize("is_reversed", [False, True])
def test_the_strictest_of_several_quotas_counts_for_a_gang(*, is_reversed: bool) -> None:
    quotas = [limit({MEMORY: "80Gi"}), limit({MEMORY: "400Gi"}, together=True)]
    slices = [gpu_slice("n0", 1, capacity=FEW), *big_and_small()]
    chosen = quotas[::-1] if is_reversed else quotas
    cluster = Cluster(*slices, quotas=chosen, n0=0, n1=0, n2=0)
    cluster.add_claim(claim("other", allocation=allocation_on("n0", 0), pods=["o"], version=2))
    assert [each.node for each in cluster.ask_group("default/g", "m0").fit] == ["n2"]


def test_a_gang_takes_devices_that_a_limit_of_one_pod_allows() -> None:
    cluster = Cluster(*big_and_small(), quotas=[limit({}, {MEMORY: "40Gi"})], n1=0, n2=0)
    assert [each.node for each in cluster.ask_group("default/g", "m0").fit] == ["n2"]


def test_what_is_allocated_to_a_member_stays_charged() -> None:
    slices = [gpu_slice("n0", 1, capacity=FEW), *big_and_small()]
    cluster = Cluster(*slices, quotas=[limit({MEMORY: "80Gi"})], n0=0, n1=0, n2=0)
    held = claim("c-m0", allocation=allocation_on("n0", 0), version=2)
    cluster.add_claim(held)
    members = member(cluster, "m0", held), member(cluster, "m1")
    assert [each.node for each in ask(cluster, "m1", *members, least=2).fit] == ["n2"]


def test_a_gang_evicts_others_if_its_quota_has_room_again_while_its_search_is_cut() -> None:
    own = DeviceQuota("q", lambda name, _: name == "default", {}, {MEMORY: from_json("100Gi")})
    slices = [gpu_slice("n1", 1, capacity=BIG), gpu_slice("n3", 1, capacity=FEW)]
    cluster, group = Cluster(*slices, quotas=[own], n1=0, n3=0), GroupReference("default/g", 1)
    cluster.add_claim(claim("held", allocation=allocation_on("n3", 0), pods=["h"], version=2))
    asking = member(cluster, "m0", priority=9)
    request = PreFilterGroupRequest(pod_uid="m0", group=group, members=(asking,))
    is_changed = False
    for _ in range(200):
        reply = ask_group(cluster.decisions, request, 0.0, lambda: True)
        if reply.complete:
            break
        cut = cluster.decisions.groups._groups.get("default/g").cut  # noqa: SLF001
        if cut is None or is_changed or cut.exceeded is None:
            continue
        is_changed = True
        cluster.add_claim(claim("held", version=3))
        for node in ("n1", "n3"):
            held = allocation_on(node, 0)
            other = claim(f"c-{node}", allocation=held, pods=[f"v-{node}"], namespace="o")
            cluster.add_claim(other)
            cluster.add(pod(f"v-{node}", f"c-{node}", node=node, namespace="o"))
    assert is_changed
    assert (codes(reply), reply.group_preemptible) == (["GangTooLarge"], True)


def test_a_claim_of_a_gang_stays_charged_when_one_of_its_preempting_members_goes() -> None:
    own = DeviceQuota("q", lambda name, _: name == "default", {}, {DEVICES: from_json("3")})
    cluster, running = Cluster(quotas=[own], n1=3), [f"v{number}" for number in range(3)]
    for number, uid in enumerate(running):
        held = allocation_on("n1", number)
        cluster.add_claim(claim(f"c-{uid}", allocation=held, pods=[uid], namespace="o"))
        cluster.add(pod(uid, f"c-{uid}", node="n1", namespace="o"))
    members = [
        member(cluster, uid, claim("shared"), claim(f"c-{uid}"), priority=9) for uid in ("m0", "m1")
    ]
    assert ask(cluster, "m0", *members, least=2).group_preemptible
    victims = tuple(PotentialVictim(uid=uid, priority=0) for uid in running)
    node = PreemptionNode(node="n1", pods=victims, running=tuple(running))
    reply = cluster.decisions.preempt(PreemptRequest(pod_uid="m0", nodes=(node,)), cluster.now)
    assert sum(len(each.victims) for each in reply.evictions) == 3
    assert used(cluster) == ["3/3"]
    gone = pod("m1", "shared", "c-m1")
    cluster.add(gone)
    cluster.state.apply(gone, None)
    for uid in cluster.state.pods.take_settled():
        cluster.decisions.end(uid)
    assert used(cluster) == ["2/3"]  # the shared claim and that of m0


def test_a_gang_that_exceeds_its_quota_by_now_keeps_nothing_of_its_victim() -> None:
    own = DeviceQuota("q", lambda name, _: name == "default", {}, {DEVICES: from_json("1")})
    cluster = Cluster(quotas=[own], n1=1)
    running = claim("c-v", allocation=allocation_on("n1", 0), pods=["v"], namespace="o", version=2)
    cluster.add_claim(running)
    cluster.add(pod("v", "c-v", node="n1", namespace="o"))
    members = [member(cluster, uid, priority=9) for uid in ("m0", "m1")]
    assert ask(cluster, "m0", members[0], least=0).group_preemptible
    victim = PotentialVictim(uid="v", priority=0)
    node = PreemptionNode(node="n1", pods=(victim,), running=("v",))
    request = PreemptRequest(pod_uid="m0", nodes=(node,))
    assert cluster.decisions.preempt(request, cluster.now).evictions
    cluster.add_claim(claim("c-v", namespace="o", version=3))
    contender = claim("d", namespace="o")
    assert cluster.nodes("contender", contender) == []
    assert codes(ask(cluster, "m1", *members, least=0)) == ["DeviceQuotaUsedUp"]
    assert cluster.nodes("contender", contender) == ["n1"]
    assert "evicts no pod for another" in cluster.decisions.preempt(request, cluster.now).message


def test_a_member_that_waited_alone_is_charged_no_more_when_its_group_is_refused() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], n1=1, n2=1)
    times = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 600}
    for node in ("n1", "n2"):
        allocated = claim(node, allocation=allocation_on(node, 0), pods=[node], namespace="other")
        cluster.add_claim(allocated)
        cluster.add(pod(node, node, node=node, namespace="other", **times))
    assert codes(cluster.prefilter("m0", claim("c-m0")))[0] == "DevicesBeingReleased"
    cluster.delete_claim("n2")
    assert used(cluster) == ["1/1"]
    assert codes(cluster.ask_group("default/g", "m0", "m1")) == ["DeviceQuotaUsedUp"]
    assert used(cluster) == ["0/1"]
    assert cluster.schedule("alone", claim("c-alone")) == "n2"


def test_many_members_that_fit_nowhere_take_no_room_in_a_quota_from_others() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "300"})], n1=100, n2=100, n3=100)
    uids = [f"m{number:03}" for number in range(600)]
    members = [
        member(cluster, uid, nodeSelector={"name": "absent"} if number < 300 else {})
        for number, uid in enumerate(uids)
    ]
    assert ask(cluster, uids[-1], *members, least=300).fit
    assert used(cluster) == ["300/300"]
