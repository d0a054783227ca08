"""Members of a group that share a claim: the first one asks for it, and the others follow."""

import msgspec
import pytest

from allocator.scheduler.protocol import (
    ClaimsOfGroup,
    GroupMember,
    GroupReference,
    PreFilterGroupRequest,
    PreFilterReply,
)
from drawbridge.agreement import allocator_codes
from tests.allocator.clusters import Cluster, Plain, ask_group, claim, codes, gpu_slice, pod
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
) -> PreFilterReply:
    """Ask about members that share a claim, some of which have one of their `own`, by UID."""
    group = GroupReference(key="default/g", min_count=2, scheduled=scheduled)
    members = tuple(
        GroupMember(
            pod=cluster.pod(uid, priority=priority, claims_of_group=GROUP),
            claims=tuple(
                msgspec.Raw(msgspec.json.encode(each))
                for each in (SHARED, *([own[uid]] if own and uid in own else ()))
            ),
        )
        for uid in asked
    )
    request = PreFilterGroupRequest(pod_uid=asked[0], group=group, members=members)
    return ask_group(cluster.decisions, request, cluster.now)


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


@every_row(
    ("running", "own", "scheduled", "evicted"),
    [
        (1, (), 0, 1),
        (2, (), 0, 1),
        (2, ("m0",), 0, 2),
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
