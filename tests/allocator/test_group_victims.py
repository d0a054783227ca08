"""Victims for groups: enough members fit without them, and none of them could stay."""

from allocator.scheduler.protocol import PreemptReply
from tests.allocator.clusters import claim, gpu_slice
from tests.allocator.contests import HIGH, LOW, Contest

FOUR = ("m0", "m1", "m2", "m3")


def full(**lows: int) -> Contest:
    """Return nodes whose devices single pods of a low priority hold."""
    contest = Contest(**lows)
    for node, count in lows.items():
        for number in range(count):
            contest.run(f"{node}-{number}", node, number, start=f"2026-01-01T00:00:0{number}Z")
    return contest


def preempt(contest: Contest, *uids: str, min_count: int = 0, priority: int = HIGH) -> PreemptReply:
    """Ask about a group that does not fit, and for its victims."""
    reply = contest.cluster.ask_group("default/g", *uids, min_count=min_count, priority=priority)
    assert not reply.fit
    assert reply.group_preemptible
    assert not reply.preemptible
    decisions = contest.cluster.decisions
    return decisions.preempt(contest.preemption(uids[0]), contest.cluster.now)


def victims_of(reply: PreemptReply) -> dict[str, list[str]]:
    """Return the victims by node."""
    return {each.node: sorted(each.victims) for each in reply.evictions}


def test_enough_pods_are_evicted_for_all_members() -> None:
    contest = full(n1=2, n2=2)
    reply = preempt(contest, *FOUR)
    assert victims_of(reply) == {"n1": ["n1-0", "n1-1"], "n2": ["n2-0", "n2-1"]}


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


def test_the_other_members_wait_and_evict_nobody_else() -> None:
    contest = full(n1=4, n2=4)
    assert len(victims_of(preempt(contest, *FOUR))) == 1
    reply = contest.cluster.decisions.preempt(contest.preemption("m1"), 0.0)
    assert (reply.evictions, reply.waiting) == ((), True)


def test_the_devices_of_the_victims_are_kept_for_the_group_until_all_are_free() -> None:
    contest = full(n1=4)
    evicted = victims_of(preempt(contest, *FOUR))["n1"]
    for uid in FOUR:
        reply = contest.cluster.ask_group("default/g", *FOUR, asking=uid, priority=HIGH)
        contest.waiting.note_answer(uid, HIGH, [], 0.0, complete=reply.complete)
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
