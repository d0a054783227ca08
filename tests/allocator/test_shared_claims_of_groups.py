"""Members of a group that share a claim get devices of one node, for all that they ask for."""

import itertools
from collections.abc import Callable

import msgspec
import pytest

from allocator.decisions.group_members import AskingMember, MemberSet
from allocator.decisions.shortlist import NodeSearch, never
from allocator.scheduler.protocol import (
    ClaimsOfGroup,
    GroupMember,
    GroupReference,
    PreFilterGroupRequest,
    PreFilterReply,
    PreFilterRequest,
)
from allocator.state.records import PodRequest
from drawbridge.agreement import allocator_codes
from drawbridge.dra.device_quotas import DEVICES, DeviceQuota, QuotaKey
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import Quantity
from tests.allocator.clusters import (
    Cluster,
    Plain,
    allocation_on,
    as_claim,
    ask_group,
    claim,
    codes,
    gpu_class,
    gpu_slice,
    pod,
)
from tests.allocator.contests import HIGH, Contest
from tests.tables import every_row

SHARED = claim("shared")
GROUP = ClaimsOfGroup(name="g", uid="uid-g", claims=("shared",))


def ask(
    cluster: Cluster,
    *asked: str,
    scheduled: int = 0,
    priority: int = 0,
    own: dict[str, Plain] | None = None,
    least: int = 2,
    key: str = "default/g",
    shared: dict[str, Plain] | None = None,
    selectors: dict[str, dict[str, str]] | None = None,
    out_of_time: Callable[[], bool] = never,
) -> PreFilterReply:
    """Ask about members that share a claim, some of which have one of their `own`, by UID.

    Some share another one, or select nodes, by UID.
    """
    group = GroupReference(key=key, min_count=least, scheduled=scheduled)
    members = tuple(
        GroupMember(
            pod=cluster.pod(
                uid,
                priority=priority,
                claimsOfGroup=GROUP,
                nodeSelector=(selectors or {}).get(uid, {}),
            ),
            claims=tuple(
                msgspec.Raw(msgspec.json.encode(each))
                for each in (
                    shared[uid] if shared and uid in shared else SHARED,
                    *([own[uid]] if own and uid in own else ()),
                )
            ),
        )
        for uid in asked
    )
    request = PreFilterGroupRequest(pod_uid=asked[0], group=group, members=members)
    return ask_group(cluster.decisions, request, cluster.now, out_of_time)


@pytest.mark.parametrize("asking", [("m0", "m1"), ("m1", "m0")])
def test_each_member_gets_the_node_of_the_claim(asking: tuple[str, str]) -> None:
    cluster = Cluster(n1=1)
    for scheduled, uid in enumerate(asking):
        reply = ask(cluster, *asking[scheduled:], scheduled=scheduled)
        assert [each.node for each in reply.fit] == ["n1"]
        assert not cluster.reserve(uid, "n1")
    assert cluster.held() == ["n1/gpu-0"]


def test_no_member_has_a_place_without_the_devices_of_the_claim() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("other", claim("d"))
    reply = ask(cluster, "m0", "m1")
    assert codes(reply) == [allocator_codes.GANG_TOO_LARGE.name]
    assert (reply.message, reply.group_preemptible) == ("0 of 2 members of the group fit", True)


OWN = {uid: claim(f"c-{uid}") for uid in ("m0", "m1", "m2")}


@every_row(
    ("nodes", "own", "least", "placed"),
    [
        # A node gives what members share, and what each of them asks for beside that.
        ({"n1": 2}, ("m0",), 3, 3),
        ({"n1": 2}, ("m1",), 3, 3),
        ({"n1": 4}, ("m0", "m1", "m2"), 3, 3),
        ({"n1": 1, "n2": 1}, ("m1",), 3, 0),
        ({"n1": 1, "n2": 2}, ("m1",), 3, 3),
        ({"n1": 3, "n2": 3}, ("m0", "m1", "m2"), 3, 0),
        # Fewer members must run than there are.
        ({"n1": 1}, ("m1",), 2, 2),
        ({"n1": 2}, ("m0", "m1"), 2, 2),
        ({"n1": 2}, ("m0", "m1", "m2"), 2, 0),
        ({"n1": 3}, ("m0", "m1", "m2"), 2, 2),
        ({"n1": 2}, ("m0", "m1", "m2"), 1, 1),
        ({"n1": 4}, ("m0", "m1", "m2"), 1, 3),
    ],
)
def test_members_get_what_they_ask_for_beside_the_claim(
    nodes: dict[str, int], own: tuple[str, ...], least: int, placed: int
) -> None:
    cluster = Cluster(**nodes)
    reply = ask(cluster, *OWN, own={uid: OWN[uid] for uid in own}, least=least)
    promised = [uid for uid in OWN if cluster.decisions.reservations.is_promised(uid)]
    assert (len(promised), reply.group_preemptible) == (placed, not placed)
    wanted = 1 + sum(uid in own for uid in promised) if placed else 0
    assert len(cluster.held()) == wanted
    for uid in promised:
        assert not cluster.reserve(uid, cluster.held()[0].partition("/")[0])


def test_members_that_share_a_claim_get_a_node_that_all_of_them_can_use() -> None:
    cluster = Cluster(n1=1, n2=1, n3=1)
    chosen = {"m0": {"a": ""}, "m1": {"b": ""}}
    for name, labels in {"n1": {"a": ""}, "n2": {"a": "", "b": ""}, "n3": {"b": ""}}.items():
        cluster.add(Node(name, labels))
    reply = ask(cluster, "m0", "m1", selectors=chosen)
    assert [each.node for each in reply.fit] == ["n2"]
    assert cluster.held() == ["n2/gpu-0"]


def test_a_member_is_promised_nothing_that_others_have_of_its_claim_by_then() -> None:
    """Its decision is cut after each step, and another pod gets the claim after one of them."""
    counts = []
    for step in range(1, 25):
        cluster = Cluster(n1=1, n2=1)
        for number in itertools.count(1):
            reply = ask(cluster, "m0", "m1", out_of_time=lambda: True)
            if reply.complete:
                break
            if number == step:
                assert not cluster.reserve("other", cluster.nodes("other", SHARED)[-1])
        counts.append(number)
        (device,) = cluster.held()
        assert [each.node for each in reply.fit] == [device.partition("/")[0]]
    assert 4 < min(counts) < 20


def test_no_more_pods_are_evicted_than_for_those_that_must_run() -> None:
    contest = Contest(n1=4)
    for number in range(4):
        contest.run(f"low-{number}", "n1", number)
    assert ask(contest.cluster, *OWN, own=OWN, least=2, priority=HIGH).group_preemptible
    answer = contest.cluster.decisions.preempt(contest.preemption("m0"), contest.cluster.now)
    assert sum(len(each.victims) for each in answer.evictions) == 3


@every_row("large", tuple(OWN))
def test_a_member_that_fits_nowhere_keeps_no_others_from_devices(large: str) -> None:
    cluster = Cluster(n1=3)
    own = {uid: claim(f"c-{uid}", 9 if uid == large else 1) for uid in OWN}
    assert ask(cluster, *OWN, own=own, least=2).complete
    promised = [uid for uid in OWN if cluster.decisions.reservations.is_promised(uid)]
    assert promised == [uid for uid in OWN if uid != large]
    assert len(cluster.held()) == 3


@every_row("fitting", tuple(itertools.combinations(("m0", "m1", "m2", "m3"), 2)))
def test_any_two_of_four_different_members_get_devices(fitting: tuple[str, ...]) -> None:
    cluster = Cluster(n1=3)
    own = {
        uid: claim(
            uid, requests=[{"name": uid, "exactly": {"deviceClassName": "gpu", "count": count}}]
        )
        for uid, count in (
            dict.fromkeys(("m0", "m1", "m2", "m3"), 3) | dict.fromkeys(fitting, 1)
        ).items()
    }
    assert ask(cluster, *own, own=own, least=2).complete
    assert [uid for uid in own if cluster.decisions.reservations.is_promised(uid)] == [*fitting]


def test_members_are_left_out_in_few_ways() -> None:
    cluster = Cluster(n1=1)
    own = {f"m{number}": claim(f"c-m{number}", number + 2) for number in range(16)}
    reply = ask(cluster, *own, own=own, least=8)
    assert (reply.complete, cluster.held()) == (True, [])


@every_row("elsewhere", tuple(OWN))
def test_a_member_for_other_nodes_keeps_those_that_share_its_claim_from_none(
    elsewhere: str,
) -> None:
    cluster = Cluster(n1=1)
    cluster.add(Node("n1", {"a": ""}))
    selectors = {uid: {"a": ""} for uid in OWN} | {elsewhere: {"b": ""}}
    assert ask(cluster, *OWN, selectors=selectors, least=2).complete
    promised = [uid for uid in OWN if cluster.decisions.reservations.is_promised(uid)]
    assert promised == [uid for uid in OWN if uid != elsewhere]


def test_what_a_quota_leaves_of_a_shared_claim_is_what_all_members_get() -> None:
    limit = DeviceQuota(
        "q", lambda _name, _labels: True, {}, {QuotaKey("large", DEVICES): Quantity.of(1)}
    )
    large = {"name": "r", "exactly": {"deviceClassName": "large", "count": 1}}
    either = [{"name": each, "deviceClassName": each, "count": 1} for each in ("large", "gpu")]
    for selectors in ({}, {"m0": {"a": ""}}, {"m1": {"a": ""}}):
        cluster = Cluster(quotas=[limit], n1=4)
        cluster.add(Node("n1", {"a": ""}), gpu_class("large"))
        choice = claim("shared", requests=[{"name": "r", "firstAvailable": either}])
        reply = ask(
            cluster,
            "m0",
            "m1",
            shared={"m0": choice, "m1": choice},
            own={"m0": claim("own", requests=[large])},
            selectors=selectors,
        )
        assert len(cluster.held()) == 2, (selectors, reply)


def test_members_share_claims_in_chains() -> None:
    cluster, other = Cluster(n1=1, n2=2), claim("other")
    # m1 shares a claim with m0, and another one with m2.
    reply = ask(cluster, *OWN, shared={"m2": other}, own={"m1": other}, least=3)
    assert cluster.held() == ["n2/gpu-0", "n2/gpu-1"]
    assert [each.node for each in reply.fit] == ["n2"]


def test_pairs_that_share_a_claim_are_on_nodes_of_their_own() -> None:
    cluster, other = Cluster(n1=2, n2=2), claim("other")
    pairs = {"m2": other, "m3": other}
    own = {uid: claim(f"c-{uid}") for uid in ("m0", "m3")}
    assert ask(cluster, "m0", "m1", "m2", "m3", shared=pairs, own=own, least=4).fit
    assert cluster.held() == ["n1/gpu-0", "n1/gpu-1", "n2/gpu-0", "n2/gpu-1"]
    for pair in (("m0", "m1"), ("m2", "m3")):
        promised = [cluster.decisions.reservations.find(uid) for uid in pair]
        assert len({each.node for each in promised if each}) == 1


@every_row(
    ("running", "own", "scheduled", "evicted"),
    [
        (1, (), 0, 1),
        (2, (), 0, 1),
        (2, ("m0",), 0, 2),
        (2, ("m1",), 0, 2),
        (1, ("m1",), 0, 0),
        (2, (), 1, 1),
    ],
)
def test_pods_are_evicted_for_the_devices_of_the_claim(
    running: int, own: tuple[str, ...], scheduled: int, evicted: int
) -> None:
    contest = Contest(n1=running)
    for number in range(running):
        contest.run(f"low-{number}", "n1", number)
    claims = {uid: claim(f"c-{uid}") for uid in own}
    reply = ask(contest.cluster, "m0", "m1", scheduled=scheduled, priority=HIGH, own=claims)
    assert reply.group_preemptible
    answer = contest.cluster.decisions.preempt(contest.preemption("m1"), contest.cluster.now)
    assert sum(len(each.victims) for each in answer.evictions) == evicted


@pytest.mark.parametrize(("too_much", "count"), [("m0", 4), ("m2", 100)])
def test_a_gang_evicts_pods_for_those_of_its_members_that_can_run(
    too_much: str, count: int
) -> None:
    contest = Contest(n1=3)
    for number in range(3):
        contest.run(f"low-{number}", "n1", number)
    members = ("m0", "m1", "m2")
    own = {uid: claim(f"c-{uid}", count if uid == too_much else 1) for uid in members}
    assert ask(contest.cluster, *members, priority=HIGH, own=own).group_preemptible
    answer = contest.cluster.decisions.preempt(contest.preemption("m0"), contest.cluster.now)
    assert [sorted(each.victims) for each in answer.evictions] == [["low-0", "low-1", "low-2"]]
    kept = {uid for uid in members if contest.cluster.decisions.preemptors.find(uid)}
    assert too_much not in kept
    assert len(kept) == 2


def contested() -> Contest:
    """Return a node whose only device a pod of a low priority holds, and a gang that waits."""
    contest = Contest(n1=1)
    contest.run("low", "n1", 0)
    ask(contest.cluster, "m0", "m1", priority=HIGH)
    for uid in ("m0", "m1"):
        contest.waiting.note_answer(uid, (), contest.cluster.now)
    return contest


def test_a_gang_with_a_forgotten_member_is_asked_about_anew_when_its_victim_has_ended() -> None:
    contest = contested()
    assert contest.cluster.decisions.preempt(contest.preemption("m1"), 0.0).evictions
    contest.cluster.state.records.limit = 1
    assert contest.ask("other") == []  # drops the record of m1, for which nothing is kept
    assert sorted(contest.cluster.state.records) == ["m0", "other"]
    contest.end("low")
    assert contest.woken(2.0) == ["m0"]
    assert ask(contest.cluster, "m0", "m1", priority=HIGH).fit


def test_a_gang_with_a_forgotten_member_is_asked_about_anew_when_a_device_is_free() -> None:
    contest = contested()
    contest.cluster.state.records.limit = 2
    contest.ask("other")  # drops the record of a member
    assert sorted(contest.cluster.state.records) == ["m1", "other"]
    contest.woken(2.0)  # to ask for victims
    contest.end("low")
    assert "m1" in contest.woken(9.0)


def test_a_gang_with_a_bound_member_is_not_woken_before_it_fits() -> None:
    contest = contested()
    assert contest.woken(2.0) == ["m0", "m1"]  # to ask for victims
    contest.cluster.add(pod("m1", "shared", node="n1", spec={"priority": HIGH}))
    contest.cluster.add(gpu_slice("n1", 1, generation=2))  # the gang is decided about again
    assert contest.woken(9.0) == []
    assert sorted(contest.cluster.state.records) == ["m0"]


@pytest.mark.parametrize(
    ("shared", "size", "beside", "expected"),
    [
        ("of-pods", 256, 0, []),
        ("of-pods", 257, 0, ["ClaimHasMaxConsumers"]),
        ("of-pods", 255, 2, ["ClaimHasMaxConsumers"]),
        ("shared", 257, 2, []),  # which is reserved for the group
    ],
)
def test_no_more_members_get_devices_than_their_claim_can_be_reserved_for(
    shared: str, size: int, beside: int, expected: list[str]
) -> None:
    cluster, members = Cluster(n1=1), [f"m{number}" for number in range(size)]
    plain = claim(shared, pods=[f"other-{number}" for number in range(beside)])
    reply = ask(cluster, *members, least=size, shared=dict.fromkeys(members, plain))
    assert codes(reply) == expected
    assert bool(cluster.state.ledger.reservations) is not bool(expected)


def test_a_second_gang_waits_for_a_claim_that_is_given_to_the_first_one() -> None:
    cluster, plain = Cluster(n1=1), claim("of-pods")
    for name, expected in (("a", []), ("b", ["ClaimHasMaxConsumers"])):
        members = [f"{name}{number}" for number in range(200)]
        shared = dict.fromkeys(members, plain)
        reply = ask(cluster, *members, least=200, shared=shared, key=f"default/{name}")
        assert codes(reply) == expected
        # The first ones wait at Permit, and nothing is written.
        assert not any(cluster.reserve(uid, "n1") for uid in members if not expected)


@pytest.mark.parametrize("is_allocated", [False, True])
def test_a_gang_is_asked_about_anew_as_soon_as_a_consumer_leaves(*, is_allocated: bool) -> None:
    cluster, members = Cluster(n1=2), [f"m{number}" for number in range(200)]
    allocation = allocation_on("n1", 0) if is_allocated else None

    def used_by(others: int) -> dict[str, Plain]:
        pods = [f"other-{number}" for number in range(others)]
        version = 100 - others
        plain = claim("of-pods", allocation=allocation, pods=pods, version=version)
        if is_allocated:
            cluster.add_claim(plain)
        return dict.fromkeys(members, plain)

    assert codes(ask(cluster, *members, least=200, shared=used_by(57))) == ["ClaimHasMaxConsumers"]
    shared = used_by(56)
    raw = (msgspec.Raw(msgspec.json.encode(shared["m1"])),)
    group = GroupReference(key="default/g", min_count=200)
    request = PreFilterRequest(pod=cluster.pod("m1"), claims=raw, group=group)
    assert cluster.decisions.prefilter(request, cluster.now).members_needed
    assert ask(cluster, *members, least=200, shared=shared).fit


def test_members_that_a_quota_refuses_take_no_consumer_from_others() -> None:
    quota = DeviceQuota("q", lambda *_: True, {QuotaKey("gpu", DEVICES): Quantity.of(1)}, {})
    cluster, members = Cluster(quotas=[quota], n1=9), [f"m{number:03}" for number in range(300)]
    cluster.add(Node("n1", {"a": ""}))
    shared = dict.fromkeys(members, claim("of-pods"))
    own = {uid: claim(f"c-{uid}", 2) for uid in members[1:151]}
    # Whichever of the two things that the others ask for comes first.
    selectors = {uid: {"a": ""} for uid in members[225:]}
    reply = ask(cluster, *members, least=150, shared=shared, own=own, selectors=selectors)
    assert codes(reply) == []


def test_members_with_room_in_a_quota_in_place_of_others_have_room_in_their_claim() -> None:
    quota = DeviceQuota("q", lambda *_: True, {}, {QuotaKey("gpu", DEVICES): Quantity.of(11)})
    cluster, members = Cluster(quotas=[quota], n1=11), [f"m{number:03}" for number in range(300)]
    shared = dict.fromkeys(members, claim("of-pods"))
    # Beside the first one, the quota has no room for those behind it.
    own = {uid: claim(f"c-{uid}") for uid in members[1:11]} | {members[0]: claim("large", 10)}
    reply = ask(cluster, *members, least=260, shared=shared, own=own)
    assert codes(reply) == ["ClaimHasMaxConsumers"]
    assert not cluster.held()


@pytest.mark.parametrize("label", ["a", "c"])
@every_row("fitting", tuple(itertools.combinations(("m0", "m1", "m2", "m3"), 2)))
def test_members_for_other_nodes_take_no_room_in_a_quota_from_those_that_share_their_claim(
    fitting: tuple[str, str], label: str
) -> None:
    quota = DeviceQuota("q", lambda *_: True, {}, {QuotaKey("gpu", DEVICES): Quantity.of(4)})
    cluster, members = Cluster(quotas=[quota], n1=4), ("m0", "m1", "m2", "m3")
    cluster.add(Node("n1", {label: ""}))
    selectors = {uid: {label if uid in fitting else "b": ""} for uid in members}
    own = {uid: claim(f"c-{uid}") for uid in members}
    assert ask(cluster, *members, own=own, selectors=selectors, least=2).complete
    promised = [uid for uid in members if cluster.decisions.reservations.is_promised(uid)]
    assert promised == [*fitting]


def test_what_members_ask_for_together_is_computed_once() -> None:
    pod_of_member = Cluster().pod("a")
    search = NodeSearch(pod=pod_of_member, claims=(as_claim(SHARED),))
    members = MemberSet((AskingMember(PodRequest(pod_of_member, ()), search, b"key"),))
    assert members.claims is members.claims
    assert members.key is members.key


@pytest.mark.parametrize("large", [0, 1])
def test_of_many_pairs_those_with_a_place_get_devices(large: int) -> None:
    pairs = [(f"a{number}", f"b{number}") for number in range(9)]
    cluster, members = Cluster(**{f"n{number}": 2 for number in range(9)}), [*sum(pairs, ())]
    shared = {uid: claim(f"of-{pair[0]}") for pair in pairs for uid in pair}
    own = {uid: claim(f"c-{uid}", 9 if uid == pair[large] else 1) for pair in pairs for uid in pair}
    assert ask(cluster, *members, shared=shared, own=own, least=9).complete
    promised = [uid for uid in members if cluster.decisions.reservations.is_promised(uid)]
    assert promised == [pair[1 - large] for pair in pairs]
