"""Claims that other pods begin to use while a preemptor waits for them."""

import itertools

import pytest

from allocator.scheduler.protocol import PreemptReply
from allocator.state.seen_pods import TERMINATION_SECONDS
from tests.allocator.clusters import allocation_on, as_claim, claim, pod
from tests.allocator.contests import HIGH, LOW, Contest
from tests.tables import every_row

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 600}


def two_nodes(second: int = LOW) -> Contest:
    """Return two nodes with a device each, which `first` and a `second` pod have."""
    contest = Contest(n1=1, n2=1)
    contest.run("first", "n1", 0)
    contest.run("second", "n2", 0, priority=second)
    return contest


def use(contest: Contest, name: str, *pods: str, other: str = "") -> None:
    """Change the consumers of a claim; `other` is the resource of one that is not a pod."""
    before = contest.cluster.state.claims[name]
    version = int(before.metadata.resource_version) + 1
    used = claim(name, version=version, allocation=allocation_on("n1", 0), pods=pods)
    if other:
        used["status"]["reservedFor"].append({"resource": other, "name": "x", "uid": "x"})
    contest.cluster.state.apply(before, as_claim(used))


def join(contest: Contest, uid: str, priority: int = LOW) -> None:
    """Let another pod use the claim of `first`."""
    contest.cluster.add(pod(uid, "of-first", node="n1"))
    contest.enlist(uid, "n1", priority)
    use(contest, "of-first", "first", uid)


@every_row(
    ("priority", "victims"),
    [(LOW, ["joining"]), (HIGH, ["second"])],
)
def test_a_preemptor_whose_claim_another_pod_uses_evicts_others_at_once(
    priority: int, victims: list[str]
) -> None:
    contest = two_nodes(LOW + 1)
    assert contest.victims("high") == ["first"]
    contest.evict("first")
    assert contest.woken() == []
    join(contest, "joining", priority)
    assert contest.woken() == ["high"]
    assert contest.victims("high") == victims
    assert contest.woken() == []


def test_a_claim_without_consumers_that_is_not_released_yet_can_be_joined() -> None:
    contest = two_nodes(LOW + 1)
    contest.victims("high")
    use(contest, "of-first")
    assert contest.woken() == []
    join(contest, "joining")
    assert contest.woken() == ["high"]


@every_row(
    ("how", "woken"),
    [
        ("it ends", []),
        ("it leaves", []),
        ("it leaves again", []),
        ("it is a victim", []),
        ("it is no pod", ["high"]),
    ],
)
def test_only_who_stays_ends_the_wait_of_a_preemptor(how: str, woken: list[str]) -> None:
    contest, expected = two_nodes(HIGH), ["first"]
    if how == "it is a victim":
        # It is being bound.
        assert contest.cluster.schedule("joining", claim("of-first")) == "n1"
        contest.enlist("joining", "n1")
        expected = ["first", "joining"]
    assert sorted(contest.victims("high")) == expected
    assert contest.woken() == []
    leaves = {"it ends": {"phase": "Failed"}, "it leaves": DELETED}.get(how, {})
    contest.cluster.add(pod("joining", "of-first", node="n1", **leaves))
    if how == "it is no pod":
        use(contest, "of-first", "first", other="jobs")
    else:
        use(contest, "of-first", "first", "joining")
    if how == "it leaves again":
        use(contest, "of-first", "first")
    assert contest.woken() == woken


def test_a_victim_of_another_preemptor_ends_no_wait() -> None:
    contest = Contest(n1=2)
    contest.run("first", "n1", 0, 1)
    assert contest.cluster.schedule("joining", claim("of-first", 2)) == "n1"
    contest.enlist("joining", "n1")
    assert sorted(contest.victims("one")) == ["first", "joining"]
    assert contest.preempt("rest").waiting
    assert contest.woken() == []
    before = contest.cluster.state.claims["of-first"]
    allocation = allocation_on("n1", 0, 1)
    used = claim("of-first", 2, version=3, allocation=allocation, pods=["first", "joining"])
    contest.cluster.state.apply(before, as_claim(used))
    assert contest.woken() == []


def preempt(contest: Contest) -> PreemptReply:
    """Ask about a gang of two that does not fit, and for its victims."""
    reply = contest.cluster.ask_group("default/g", "m0", "m1", priority=HIGH)
    assert not reply.fit
    for uid in ("m0", "m1"):
        contest.waiting.note_answer(uid, [], contest.cluster.now)
    return contest.cluster.decisions.preempt(contest.preemption("m0"), contest.cluster.now)


@pytest.mark.parametrize(
    ("at", "node", "victim"),
    [(1.0, "n1", "joining"), (30.0 + TERMINATION_SECONDS, "n3", "third")],
    ids=["another pod uses a claim", "a victim does not end in time"],
)
def test_a_gang_does_not_wait_for_its_other_victims_before_it_evicts_again(
    at: float, node: str, victim: str
) -> None:
    """What the other ones release by then counts for it."""
    contest = Contest(n1=1, n2=1, n3=1)
    for number, uid in enumerate(("first", "second", "third"), 1):
        contest.run(uid, f"n{number}", 0, priority=LOW + number // 3)
    assert len(preempt(contest).evictions) == 2
    contest.evict("second", grace=600)
    assert preempt(contest).waiting
    assert contest.woken() == []
    contest.evict("first")
    assert contest.woken() == []
    if victim == "joining":
        join(contest, "joining")
    assert sorted(contest.woken(at)) == ["m0", "m1"]
    evictions = preempt(contest).evictions
    assert [(each.node, each.victims) for each in evictions] == [(node, (victim,))]
    assert contest.woken(at + 1.0) == []
    contest.end("second")
    contest.gone(victim)
    contest.end("first" if victim == "joining" else victim)
    assert sorted(contest.woken(at + 4.0)) == ["m0", "m1"]
    assert contest.cluster.schedule_group("m0", "m1") == sorted(["n2", node])


def test_joins_that_nobody_prevents_evict_ever_more_rarely() -> None:
    """Another scheduler, for example, gives the claim to a pod for each one that is evicted."""
    contest = two_nodes(LOW + 1)
    assert contest.victims("high") == ["first"]
    evicted, now, users = list[float](), 0.0, ["first"]
    while now < 300.0:
        if len(evicted) == len(users) - 1:
            contest.evict(users[-1], grace=600)
            users.append(f"p{len(users)}")
            contest.cluster.add(pod(users[-1], "of-first", node="n1"))
            contest.enlist(users[-1], "n1")
            use(contest, "of-first", *users)
        if "high" in contest.woken(now):
            assert contest.victims("high") == users[-1:]
            evicted.append(now)
        now += 0.5
    pauses = [after - before for before, after in itertools.pairwise(evicted)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
