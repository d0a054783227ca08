"""Victims for groups: enough members fit without them, and none of them could stay."""

import itertools
from collections.abc import Callable, Collection, Mapping

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from allocator.decisions.group_victims import GroupVictimSearch, Question
from allocator.scheduler.protocol import (
    GroupMember,
    GroupReference,
    PotentialVictim,
    PreemptReply,
    PreemptRequest,
    PreFilterGroupRequest,
)
from allocator.state.group_holds import HoldEnd
from drawbridge.names import CHECKPOINTS_ANNOTATION
from drawbridge.solver.answers import Solution
from drawbridge.solver.gangs import GangPlacement, MemberKind
from tests.allocator.clusters import FOUR, allocation_on, ask_group, claim, gpu_slice, pod
from tests.allocator.contests import HIGH, LOW, Contest, shared_device
from tests.tables import every_row


def full(**lows: int) -> Contest:
    """Return nodes whose devices single pods of a low priority hold."""
    contest = Contest(**lows)
    for node, count in lows.items():
        for number in range(count):
            contest.run(f"{node}-{number}", node, number, start=f"2026-01-01T00:00:0{number}Z")
    return contest


def preempt(
    contest: Contest,
    *uids: str,
    min_count: int = 0,
    priority: int | Mapping[str, int] = HIGH,
    group: str = "default/g",
) -> PreemptReply:
    """Ask about a group that does not fit, and for its victims."""
    reply = contest.cluster.ask_group(group, *uids, min_count=min_count, priority=priority)
    assert not reply.fit
    assert reply.group_preemptible
    assert not reply.preemptible
    decisions = contest.cluster.decisions
    return decisions.preempt(contest.preemption(uids[0]), contest.cluster.now)


def victims_of(reply: PreemptReply) -> dict[str, list[str]]:
    """Return the victims by node."""
    return {each.node: sorted(each.victims) for each in reply.evictions}


@pytest.mark.parametrize(("young", "expected"), [("n1", "n1"), ("n2", "n2")])
def test_a_gang_evicts_the_pods_that_lose_least_work(young: str, expected: str) -> None:
    contest = Contest(n1=2, n2=2)
    for node, number in itertools.product(("n1", "n2"), range(2)):
        start = "2025-12-31T23:00:00Z" if node == young else "2025-12-31T00:00:00Z"
        contest.run(f"{node}-{number}", node, number, start=start)
    reply = preempt(contest, "m0", "m1")
    assert victims_of(reply) == {expected: [f"{expected}-0", f"{expected}-1"]}


def test_of_the_pods_of_a_node_a_gang_evicts_those_that_lose_least_work() -> None:
    contest = Contest(n1=3)
    for number, hour in enumerate((12, 18, 6)):
        contest.run(f"p{number}", "n1", number, start=f"2025-12-31T{hour:02}:00:00Z")
    annotations = {CHECKPOINTS_ANNOTATION: "10m"}
    contest.cluster.add(pod("p2", "of-p2", node="n1", annotations=annotations))
    reply = preempt(contest, "m0", "m1")
    assert victims_of(reply) == {"n1": ["p1", "p2"]}


def test_enough_pods_are_evicted_for_all_members() -> None:
    contest = full(n1=2, n2=2)
    reply = preempt(contest, *FOUR)
    assert victims_of(reply) == {"n1": ["n1-0", "n1-1"], "n2": ["n2-0", "n2-1"]}


def test_devices_of_a_pod_on_another_node_are_none_that_its_eviction_gives() -> None:
    contest = Contest(n1=2, n2=2)
    contest.run("one", "n1", 0, 1)
    contest.run("two", "n2", 0)
    contest.share("left-behind", "n2", 1, pods=["one"])
    assert victims_of(preempt(contest, "m0", "m1")) == {"n1": ["one"]}


def test_without_room_for_records_a_member_asks_for_victims_after_all_were_asked_about() -> None:
    """In one cycle, the scheduler asks about all members of a group before it asks for victims."""
    contest = full(n1=2)
    contest.cluster.state.records.limit = 1
    for uid in ("m0", "m1"):
        asked = contest.cluster.ask_group("default/g", "m0", "m1", asking=uid, priority=HIGH)
        assert asked.group_preemptible
    reply = contest.cluster.decisions.preempt(contest.preemption("m0"), contest.cluster.now)
    assert victims_of(reply) == {"n1": ["n1-0", "n1-1"]}


def test_nobody_is_evicted_for_a_group_that_cannot_fit() -> None:
    contest = full(n1=3)
    reply = preempt(contest, *FOUR)
    assert (reply.evictions, reply.waiting) == ((), False)
    assert reply.message.endswith("3 of 4 members of the group fit")
    assert contest.cluster.decisions.preempt(contest.preemption("m1"), 0.0).evictions == ()


def test_nobody_is_evicted_whose_priority_is_not_lower() -> None:
    contest = Contest(n1=4)
    for number in range(4):
        contest.run(f"p{number}", "n1", number, priority=HIGH if number < 2 else LOW)
    assert preempt(contest, *FOUR).evictions == ()
    other = Contest(n1=4)
    for number in range(4):
        other.run(f"p{number}", "n1", number, priority=HIGH if number < 2 else LOW)
    assert victims_of(preempt(other, *FOUR, min_count=2)) == {"n1": ["p2", "p3"]}


@every_row(
    ("members", "running", "evicted"),
    [
        ((9, 9, 9, 9), 8, 4),
        ((9, 9, 9, 9), 9, 0),
        ((9, 9, 9, 5), 8, 0),
        ((9, 9, 9, 5), 5, 0),
        ((9, 9, 9, 5), 4, 4),
        ((5, 9, 9, 9), 4, 4),
        ((9, -1, -1, -1), 0, 0),
    ],
)
def test_a_gang_evicts_by_its_least_important_member(
    members: tuple[int, ...], running: int, evicted: int
) -> None:
    contest = Contest(n1=4)
    for number in range(4):
        contest.run(f"p{number}", "n1", number, priority=running)
    reply = preempt(contest, *FOUR, priority=dict(zip(FOUR, members, strict=True)))
    assert sum(map(len, victims_of(reply).values())) == evicted


def test_a_member_that_needs_no_devices_does_not_lower_the_priority() -> None:
    contest = full(n1=3)
    allocated = claim("c-m3", allocation=allocation_on("n1", 9), version=3)
    contest.cluster.add_claim(allocated)
    reply = preempt(contest, *FOUR, min_count=4, priority={**dict.fromkeys(FOUR, HIGH), "m3": LOW})
    assert victims_of(reply) == {"n1": ["n1-0", "n1-1", "n1-2"]}


def test_a_gang_with_a_member_that_never_preempts_evicts_nobody() -> None:
    contest = full(n1=4)
    contest.cluster.add(pod("m2", "c-m2", spec={"preemptionPolicy": "Never"}))
    reply = preempt(contest, *FOUR)
    assert (reply.evictions, reply.waiting) == ((), False)
    assert reply.message == "the preemptionPolicy of member default/m2 is Never"


def test_nobody_is_evicted_beside_a_pod_that_must_go_and_is_too_important() -> None:
    contest = full(n1=3, n2=4)
    contest.enlist("other", "n1", HIGH - 1, required=True)
    priority = {**dict.fromkeys(FOUR, HIGH), "m3": HIGH - 1}
    assert victims_of(preempt(contest, *FOUR, priority=priority)).keys() == {"n2"}


def test_what_is_kept_for_a_gang_goes_to_a_pod_above_its_least_important_member() -> None:
    contest = full(n1=4)
    preempt(contest, *FOUR, priority={**dict.fromkeys(FOUR, HIGH), "m3": 5})
    for number in range(4):
        contest.evict(f"n1-{number}")
        contest.end(f"n1-{number}")
    assert contest.cluster.nodes("below", claim("d"), priority=5) == []
    assert contest.cluster.nodes("above", claim("e"), priority=6) == ["n1"]


def test_devices_that_are_kept_for_members_count_when_the_gang_evicts_again() -> None:
    contest = full(n1=4)
    preempt(contest, *FOUR)
    for number in range(4):
        contest.evict(f"n1-{number}")
        contest.end(f"n1-{number}")
    assert contest.cluster.nodes("higher", claim("d"), priority=HIGH + 1) == ["n1"]
    assert not contest.cluster.reserve("higher", "n1")
    contest.cluster.add(gpu_slice("n1", 5, generation=2))
    contest.run("last", "n1", 4)
    assert victims_of(preempt(contest, *FOUR)) == {"n1": ["last"]}


def test_no_more_are_evicted_than_needed_beside_free_devices() -> None:
    contest = full(n1=2, n2=2)
    contest.end("n2-1")
    contest.end("n1-0")
    assert sum(map(len, victims_of(preempt(contest, *FOUR)).values())) == 2


def test_only_as_many_members_as_must_run_have_victims() -> None:
    reply = preempt(full(n1=4), *FOUR, min_count=3)
    assert len(victims_of(reply)["n1"]) == 3


def test_pods_whose_eviction_violates_a_budget_stay_if_others_can_go() -> None:
    contest = Contest(n1=2, n2=2)
    for number in range(2):
        contest.run(f"a{number}", "n1", number, violates=True)
        contest.run(f"b{number}", "n2", number)
    assert victims_of(preempt(contest, "m0", "m1")) == {"n2": ["b0", "b1"]}


def test_a_gang_counts_the_victims_whose_eviction_violates_a_budget() -> None:
    contest = Contest(n1=2)
    contest.run("a", "n1", 0, 1, violates=True)
    assert preempt(contest, "m0", "m1").violations == 1


def test_the_other_members_wait_and_evict_nobody_else() -> None:
    contest = full(n1=4, n2=4)
    assert len(victims_of(preempt(contest, *FOUR))) == 1
    reply = contest.cluster.decisions.preempt(contest.preemption("m1"), 0.0)
    assert (reply.evictions, reply.waiting) == ((), True)


def test_another_gang_of_the_same_priority_gets_nothing_of_the_victims() -> None:
    contest = full(n1=2)
    assert victims_of(preempt(contest, "m0", "m1")) == {"n1": ["n1-0", "n1-1"]}
    reply = preempt(contest, "o0", "o1", group="default/o")
    assert (reply.evictions, reply.waiting) == ((), False)
    assert "0 of 2 members of the group fit" in reply.message


def shares_of_four() -> Contest:
    """Return a device of which four pods of a low priority have shares."""
    return shared_device(**dict.fromkeys(("low0", "low1", "low2", "low3"), "1Gi"))


@pytest.mark.parametrize("make", [lambda: full(n1=4), shares_of_four])
def test_the_devices_of_the_victims_are_kept_for_the_group_until_all_are_free(
    make: Callable[[], Contest],
) -> None:
    contest = make()
    evicted = victims_of(preempt(contest, *FOUR))["n1"]
    for uid in FOUR:
        reply = contest.cluster.ask_group("default/g", *FOUR, asking=uid, priority=HIGH)
        contest.waiting.note_answer(uid, [], 0.0, complete=reply.complete)
    for uid in evicted:
        contest.evict(uid)
    for uid in evicted[:-1]:
        contest.end(uid)
    assert contest.woken(2.0) == []
    assert contest.cluster.nodes("contender", claim("d")) == []
    contest.end(evicted[-1])
    assert contest.cluster.nodes("contender", claim("d")) == []
    assert sorted(contest.woken(3.0)) == sorted(FOUR)
    for uid in FOUR:
        reply = contest.cluster.ask_group("default/g", *FOUR, asking=uid, priority=HIGH)
        assert not contest.cluster.reserve(uid, reply.fit[0].node)


def test_what_is_kept_ends_if_the_victims_do_not() -> None:
    contest = full(n1=4)
    preempt(contest, *FOUR)
    contest.cluster.decisions.expire(1000.0)
    contest.cluster.add(gpu_slice("n1", 5, generation=2))
    contest.cluster.now = 1000.0
    assert contest.cluster.nodes("contender", claim("d")) == ["n1"]


def ask_grown(contest: Contest) -> PreemptReply:
    """Let a gang get a second member while a victim ends, and ask for victims if it is woken."""
    (victim,) = victims_of(preempt(contest, "m0"))["n1"]
    assert contest.woken() == []  # what runs is no news from then on
    contest.waiting.note_answer("m0", [], 0.0)
    reply = contest.cluster.ask_group("default/g", "m1", "m0", priority=HIGH)
    assert "waits for 1 device" in reply.message
    contest.waiting.note_answer("m1", [], 0.0)
    contest.end(victim)
    assert contest.woken() == ["m0"]
    assert contest.cluster.nodes("contender", claim("d")) == []
    return preempt(contest, "m0", "m1")


def test_a_gang_that_has_more_members_by_the_end_of_its_victims_evicts_again() -> None:
    contest = full(n1=2)
    evicted = victims_of(ask_grown(contest))
    assert evicted == {"n1": [*contest.running["n1"]]}
    contest.end(*evicted["n1"])
    assert sorted(contest.woken(3.0)) == ["m0", "m1"]


def test_a_gang_keeps_nothing_that_is_too_little_and_gets_no_more_victims() -> None:
    contest = full(n1=1)
    assert not ask_grown(contest).evictions
    assert contest.cluster.nodes("contender", claim("d")) == ["n1"]


def test_a_gang_of_which_fewer_have_a_place_than_were_counted_evicts_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(GroupVictimSearch, "place", lambda *_: GangPlacement((), 3))
    reply = preempt(full(n1=4), *FOUR)
    assert reply == PreemptReply(message=reply.message)
    assert "3 of 4 members of the group fit" in reply.message


def test_no_member_is_woken_before_the_last_victim_of_a_gang_has_ended() -> None:
    contest = full(n1=1, n2=1)
    preempt(contest, "m0", "m1")
    assert contest.woken() == []
    for uid in ("m0", "m1"):
        contest.waiting.note_answer(uid, [], 0.0)
    contest.end("n1-0")
    assert contest.woken() == []
    contest.end("n2-0")
    assert sorted(contest.woken(3.0)) == ["m0", "m1"]


def test_a_gang_that_does_not_use_the_devices_of_its_victims_evicts_less_and_less() -> None:
    contest = full(n1=4)
    cluster, numbers = contest.cluster, itertools.count()
    times: list[int] = []
    for second in range(0, 2500, 5):
        cluster.now = float(second)
        cluster.decisions.expire(cluster.now)
        # The scheduler asks about the gang, and never reserves anything for it.
        if cluster.ask_group("default/g", *FOUR, priority=HIGH).group_preemptible:
            reply = cluster.decisions.preempt(contest.preemption("m0"), cluster.now)
            times += [second] if reply.evictions else []
            for uid in victims_of(reply).get("n1", ()):
                contest.evict(uid)
                contest.end(uid)
        elif cluster.nodes("probe", claim("of-probe", 4)):
            for device in range(4):
                contest.run(f"r{next(numbers)}", "n1", device)
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert 4 < len(times) < 9
    assert pauses == sorted(pauses)
    assert pauses[-1] > 900


def test_a_gang_that_was_bound_evicts_again_at_once() -> None:
    contest = full(n1=4)
    preempt(contest, *FOUR)
    holds = contest.cluster.decisions.groups.holds
    groups = contest.cluster.decisions.reservations.groups
    holds.begin("default/g", FOUR, 0.0, 0.0)
    holds.end("default/g", 0.0, HoldEnd.DEADLINE)
    assert groups.paused_until("default/g", "eviction_pause") > 0
    contest.cluster.add(pod("m0", "c-m0", node="n1"))
    contest.cluster.decisions.end("m0")
    assert groups.paused_until("default/g", "eviction_pause") == 0


# --- searches that are cut ---


def mixed() -> tuple[Contest, PreFilterGroupRequest]:
    """Return full nodes, and a gang of three kinds with two members each that wants them."""
    contest = full(**{f"n{number}": 4 for number in range(4)})
    members = tuple(
        GroupMember(
            pod=contest.cluster.pod(f"m{count}-{number}", priority=HIGH),
            claims=(Raw(msgspec.json.encode(claim(f"c{count}-{number}", count))),),
        )
        for count in (1, 2, 3)
        for number in range(2)
    )
    group = GroupReference(key="default/g", min_count=len(members))
    request = PreFilterGroupRequest(pod_uid="m1-0", group=group, members=members)
    assert ask_group(contest.cluster.decisions, request, 0.0).group_preemptible
    return contest, request


def after_looks(looks: int) -> Callable[[], bool]:
    """Return a clock on which the time is over after so many looks at it."""
    numbers = itertools.count(1)
    return lambda: next(numbers) > looks


def in_turns(contest: Contest) -> tuple[PreemptReply, int]:
    """Ask for victims with little time; return the reply, and how many turns it took."""
    decisions, waiting = contest.cluster.decisions, contest.waiting
    waiting.note_answer("m1-0", (), 0.0)
    for turns in range(1000):
        if turns == 0 or "m1-0" in waiting.wake(0.1 * turns, out_of_time=after_looks(50)).woken:
            request = contest.preemption("m1-0")
            reply = decisions.preempt(request, 0.1 * turns, after_looks(50))
            waiting.note_preemption("m1-0", refused=not reply.evictions, again=reply.unfinished)
            if not reply.unfinished:
                return reply, turns
    raise AssertionError("the search makes no progress")


def test_a_search_that_is_cut_after_each_step_goes_on_beside_the_calls() -> None:
    reply, turns = in_turns(mixed()[0])
    contest, _ = mixed()
    whole = contest.cluster.decisions.preempt(contest.preemption("m1-0"), 0.0)
    assert victims_of(reply) == victims_of(whole)
    assert sum(map(len, victims_of(whole).values())) == 2 * (1 + 2 + 3)
    assert turns > 5


def test_a_search_ends_however_little_time_its_turns_have() -> None:
    contest = full(n1=2, n2=2, n3=2)
    contest.cluster.ask_group("default/g", *FOUR, priority=HIGH)
    request, decisions = contest.preemption("m0"), contest.cluster.decisions
    for _ in range(1000):
        if not (reply := decisions.preempt(request, 0.0, lambda: True)).unfinished:
            break
    assert sum(map(len, victims_of(reply).values())) == 4


def test_a_search_that_was_cut_evicts_nobody_who_is_gone() -> None:
    contest, _ = mixed()
    decisions = contest.cluster.decisions
    whole, _ = mixed()
    reply = whole.cluster.decisions.preempt(whole.preemption("m1-0"), 0.0)
    first = next(iter(victims_of(reply).values()))[0]
    calls = 0
    while decisions.preempt(contest.preemption("m1-0"), 0.0, after_looks(50)).unfinished:
        calls += 1
        if calls == 5:
            contest.end(first)
    pods = [each for of_node in contest.running.values() for each in of_node]
    assert not decisions.preemptors.is_victim(first)
    assert sum(map(decisions.preemptors.is_victim, pods)) in {11, 12}


def test_a_search_that_was_cut_ends_when_a_claim_of_its_pod_is_deleted() -> None:
    contest, request = mixed()
    decisions, waiting = contest.cluster.decisions, contest.waiting
    waiting.note_answer("m1-0", (), 0.0)
    reply = decisions.preempt(contest.preemption("m1-0"), 0.0, after_looks(50))
    waiting.note_preemption("m1-0", refused=True, again=reply.unfinished)
    asking = decisions.requests.find(request.pod_uid)
    assert asking is not None
    contest.cluster.delete_claim(asking.claims[0])
    while waiting.wake(5.0, out_of_time=after_looks(50)).unfinished:
        pass


def test_only_pods_that_the_scheduler_lists_are_evicted() -> None:
    contest, _ = mixed()
    decisions = contest.cluster.decisions
    request = contest.preemption("m1-0")
    other = replace(contest.preemption("m2-0"), nodes=())
    while decisions.preempt(request, 0.0, after_looks(50)).unfinished:
        reply = decisions.preempt(other, 0.0)
        assert reply.evictions == ()
    assert decisions.preempt(request, 0.0).waiting


def test_a_step_asks_about_one_node_and_its_pods_or_compares_few_numbers() -> None:
    names = [f"n{number}" for number in range(12)]
    kinds = [MemberKind((), 10, names) for _ in range(3)]
    pods = {name: (PotentialVictim(uid=f"p-{name}"),) for name in names}
    search = GroupVictimSearch(PreemptRequest(pod_uid="m0"), [kinds], 30, pods)
    asked = 0

    def ask(question: Question) -> Solution | None:
        nonlocal asked
        asked += 1
        removed, node, _ = question
        assert removed <= {f"p-{node}"}
        return Solution(node, ())

    steps = 0
    while search.run(ask, 0, lambda: True) is None:
        steps += 1
        assert asked <= steps
    # Numbers are compared in steps without a question.
    assert steps > asked > 0


def test_a_step_weighs_the_lost_work_of_few_nodes() -> None:
    names = [f"n{number}" for number in range(100)]
    kinds = [MemberKind((), 50, names)]
    pods = {name: (PotentialVictim(uid=f"p-{name}"),) for name in names}
    weighed = 0

    def lost(some: Collection[PotentialVictim]) -> int:
        nonlocal weighed
        weighed += len(some)
        return 0

    def ask(question: Question) -> Solution | None:
        removed, node, _ = question
        return Solution(node, ()) if f"p-{node}" in removed else None

    search = GroupVictimSearch(PreemptRequest(pod_uid="m0"), [kinds], 50, pods, lost)
    most = chosen = 0
    while not chosen:
        before = weighed
        victims = search.run(ask, 0, lambda: True)
        most, chosen = max(most, weighed - before), len(victims.uids) if victims else 0
    assert chosen > 0
    assert weighed >= len(names)
    assert most <= 16
