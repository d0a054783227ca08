"""Claims that are being released for a preemptor, and pods that would use them meanwhile."""

from typing import Any

import msgspec

from allocator.api.searching import search_for_pod
from allocator.scheduler.protocol import (
    GroupMember,
    GroupReference,
    PreFilterGroupRequest,
    PreFilterReply,
)
from allocator.state.preemptors import EVICTION_SECONDS
from drawbridge.dra.allocation import to_json
from tests.allocator.clusters import ask_group, claim, pod
from tests.allocator.contests import HIGH, LOW, Contest
from tests.allocator.test_joined_claims import join, two_nodes, use
from tests.tables import every_row

RELEASED = "ResourceClaim default/of-first is being released for a pod with a higher priority"


def nominate(contest: Contest) -> None:
    """Let a pod wait for what is being released on its nominated node."""
    status = msgspec.json.encode({"nominatedNodeName": "n1"})
    high = pod("high", "of-high")
    status_read = msgspec.json.decode(status, type=type(high.status))
    contest.cluster.add(msgspec.structs.replace(high, status=status_read))
    assert contest.preempt("high").waiting


def replace_first(contest: Contest, uid: str, priority: int, count: int = 1) -> PreFilterReply:
    """Ask for a pod that names the claim of `first`, as one that replaces it does."""
    contest.cluster.add(pod(uid, "of-first"))
    claims = [with_allocation(contest, "of-first")]
    claims += [claim(f"of-{uid}", count - 1)] * (count > 1)
    reply = contest.cluster.prefilter(uid, *claims, priority=priority)
    contest.waiting.note_answer(uid, [each.node for each in reply.fit], contest.cluster.now)
    return reply


def with_allocation(contest: Contest, name: str) -> dict[str, Any]:
    """Return a claim as the scheduler sends it, with its allocation."""
    current = contest.cluster.state.claims[name]
    allocation = current.status.allocation
    return claim(
        name,
        version=int(current.metadata.resource_version),
        allocation=to_json(allocation) if allocation else None,
        pods=[each.uid for each in current.status.reserved_for],
    )


@every_row(("priority", "fits"), [(LOW, False), (HIGH - 1, False), (HIGH, True), (HIGH + 1, True)])
def test_a_claim_that_is_released_for_a_preemptor_is_not_joined_below_its_priority(
    priority: int, *, fits: bool
) -> None:
    contest = two_nodes(LOW + 1)
    assert contest.victims("high") == ["first"]
    contest.evict("first")
    assert contest.woken() == []
    reply = replace_first(contest, "next", priority)
    assert bool(reply.fit) is fits
    assert not reply.preemptible or fits
    assert (reply.message == RELEASED) is not fits
    assert (contest.cluster.reserve("next", "n1") == RELEASED) is not fits
    if not fits:
        waiting = contest.cluster.pods["default", "next"]
        assert RELEASED in search_for_pod(contest.cluster.state, waiting).message
        assert contest.woken() == []
        contest.end("first")
        assert contest.woken(31.0) == ["high"]
        assert contest.ask("high") == ["n1"]


def test_a_pod_that_waits_for_a_claim_of_a_preemptor_is_woken_when_that_gives_up() -> None:
    contest = two_nodes(HIGH)
    contest.victims("high")
    assert not replace_first(contest, "next", LOW).fit
    assert contest.woken(1.0) == []
    assert contest.woken(EVICTION_SECONDS + 1.0) == ["high", "next"]
    assert replace_first(contest, "next", LOW).fit


def test_a_claim_that_another_pod_keeps_is_joined() -> None:
    """Nobody releases the claim then."""
    contest = two_nodes(HIGH)
    contest.victims("high")
    contest.cluster.add(pod("stays", "of-first", node="n1"))
    use(contest, "of-first", "first", "stays")
    assert replace_first(contest, "next", LOW).fit


@every_row(
    ("call", "message"),
    [("reserve", RELEASED), ("bind", f"{RELEASED}; the pod is tried again")],
)
def test_a_pod_that_has_reserved_a_claim_does_not_get_it_any_more(call: str, message: str) -> None:
    contest = two_nodes(HIGH)
    contest.evict("first")
    assert replace_first(contest, "next", LOW).fit
    assert contest.cluster.reserve("next", "n1") == ""
    reserved = contest.cluster.decisions.reservations
    nominate(contest)
    reserve = contest.cluster.reserve("next", "n1") if call == "reserve" else ""
    assert (reserve or reserved.begin_write("next")) == message
    assert reserved.find("next") is None


def test_a_pod_that_is_being_bound_is_left_alone() -> None:
    contest = two_nodes(HIGH)
    contest.evict("first")
    assert replace_first(contest, "next", LOW).fit
    assert contest.cluster.reserve("next", "n1") == ""
    reserved = contest.cluster.decisions.reservations
    assert reserved.begin_write("next") == ""
    nominate(contest)
    assert reserved.begin_write("next") == ""
    assert replace_first(contest, "next", LOW).fit
    join(contest, "next")
    reserved.end_write("next", written=True)
    assert contest.woken() == ["high"]


def test_members_of_a_gang_wait_for_a_claim_of_a_preemptor() -> None:
    contest = Contest(n1=1, n2=2)
    contest.run("first", "n1", 0)
    contest.run("second", "n2", 0, 1, priority=HIGH)
    contest.victims("high")
    contest.evict("first")
    shared = with_allocation(contest, "of-first")
    members = tuple(
        GroupMember(
            pod=contest.cluster.pod(uid, priority=LOW),
            claims=tuple(msgspec.Raw(msgspec.json.encode(each)) for each in (shared, claim(uid))),
        )
        for uid in ("m0", "m1")
    )
    group = GroupReference(key="default/g")
    asked = PreFilterGroupRequest(pod_uid="m0", group=group, members=members)
    reply = ask_group(contest.cluster.decisions, asked, contest.cluster.now)
    for uid in ("m0", "m1"):
        contest.waiting.note_answer(uid, [], contest.cluster.now)
    assert (reply.fit, reply.message, reply.group_preemptible) == ((), RELEASED, False)
    assert contest.woken(1.0) == []
    contest.end("first")
    assert contest.woken(31.0) == ["high"]
