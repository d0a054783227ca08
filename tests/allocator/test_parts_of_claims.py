"""A pod that waits for a part of a claim leaves the rest of it to others that wait."""

import pytest

from drawbridge.dra.nodes import Node
from tests.allocator.clusters import allocation_on, claim, codes, pod
from tests.allocator.contests import HIGH, LOW, Contest, shared_device
from tests.allocator.test_group_victims import preempt, victims_of
from tests.allocator.test_preemptors import nominate
from tests.tables import every_row


def large_and_small(terminating: str = "") -> Contest:
    """Return a node with a pod that has 4 devices, and one with a more important pod that has 1."""
    contest = Contest(n1=4, n2=1)
    contest.run("large", "n1", 0, 1, 2, 3)
    contest.run("small", "n2", 0, priority=LOW + 1)
    if terminating:
        contest.evict(terminating)
    return contest


# The pods that ask one after the other for a number of devices, and whom the last one evicts.
@pytest.mark.parametrize(
    ("counts", "evicted"),
    [
        ((1, 3), []),
        ((1, 1, 2), []),
        ((4, 1), ["small"]),
        ((3, 1, 1), ["small"]),
    ],
)
@pytest.mark.parametrize("terminating", ["", "large"])
def test_a_pod_evicts_others_only_if_the_rest_of_a_claim_is_not_enough(
    terminating: str, counts: tuple[int, ...], evicted: list[str]
) -> None:
    contest = large_and_small(terminating)
    replies = [contest.preempt(f"p{number}", count) for number, count in enumerate(counts)]
    first = [] if terminating else ["large"]
    assert [list(each.victims) for each in replies] == [first, *([] for _ in counts[2:]), evicted]
    assert [each.waiting for each in replies[1:]] == [*(True for _ in counts[2:]), not evicted]
    contest.end("large")
    for number, count in enumerate(counts[: -1 if evicted else None]):
        # What is kept for pods that preempt, others do not get in the meantime.
        assert terminating or contest.ask("contender", priority=LOW) == []
        assert contest.ask(f"p{number}", count) == ["n1"]
        assert not contest.cluster.reserve(f"p{number}", "n1")


def test_a_lower_priority_than_that_of_those_who_wait_evicts_others_for_the_same_reason() -> None:
    contest = large_and_small("large")
    assert contest.preempt("one", 3).waiting
    assert contest.preempt("two", priority=HIGH - 1).waiting
    assert contest.victims("three", priority=HIGH - 1) == ["small"]


@pytest.mark.parametrize("terminating", ["", "large"])
def test_a_pod_that_lost_its_part_to_a_higher_priority_waits_for_the_rest(
    terminating: str,
) -> None:
    contest = large_and_small(terminating)
    contest.preempt("one")
    contest.preempt("two", 3, priority=HIGH + 1)
    assert contest.preempt("one").waiting
    assert contest.victims("three") == ["small"]
    contest.end("large")
    for uid, count, priority in (("two", 3, HIGH + 1), ("one", 1, HIGH)):
        assert contest.ask(uid, count, priority) == ["n1"]
        assert not contest.cluster.reserve(uid, "n1")


def test_a_group_waits_for_the_rest_of_a_claim_as_long_as_its_pod_terminates() -> None:
    contest = large_and_small()
    assert contest.victims("one") == ["large"]
    reply = preempt(contest, "m0", "m1", "m2")
    assert (reply.waiting, victims_of(reply)) == (True, {})
    assert victims_of(preempt(contest, "other", group="default/other")) == {"n2": ["small"]}
    contest.evict("large", grace=60)
    contest.woken(at=45.0)
    assert contest.cluster.decisions.preemptors.find("m0") is not None
    contest.end("large")
    assert contest.ask("contender", priority=LOW) == []
    assert contest.ask("one") == ["n1"]
    reply = contest.cluster.ask_group("default/g", "m0", "m1", "m2", priority=HIGH)
    assert reply.fit


def test_the_share_of_a_victim_is_enough_for_several_pods() -> None:
    contest = shared_device(large="3Gi", small="1Gi")
    assert contest.victims("p0") == ["small"]
    assert contest.victims("p1") == ["large"]
    assert [contest.preempt(uid).waiting for uid in ("p2", "p3")] == [True, True]
    assert contest.preempt("p4").victims == ()
    contest.end("large")
    assert contest.ask("contender", priority=LOW) == []
    contest.end("small")
    for uid in ("p3", "p2", "p1", "p0"):
        assert contest.ask(uid) == ["n1"]
        assert not contest.cluster.reserve(uid, "n1")


def test_a_pod_for_which_a_share_is_kept_while_it_waits_counts_once() -> None:
    contest = shared_device(large="4Gi")
    contest.evict("large")
    contest.cluster.add(nominate(pod("p0", "of-p0"), "n1"))
    assert [contest.preempt(f"p{number}").waiting for number in range(4)] == [True] * 4


def terminating_and_small() -> Contest:
    """A node whose pod terminates, and one with a pod that can be evicted."""
    contest = Contest(n1=1, n2=1)
    contest.run("terminating", "n1", 0)
    contest.run("small", "n2", 0)
    contest.evict("terminating")
    assert contest.woken() == []
    return contest


@every_row(
    ("priorities", "cordoned", "woken"),
    [
        ((HIGH, HIGH), "", ["one", "two"]),
        ((HIGH, HIGH - 2), "", ["one", "two"]),
        ((HIGH - 2, HIGH), "", ["two", "one"]),
        ((HIGH, HIGH), "n1", None),
    ],
)
def test_a_pod_waits_with_another_one_that_waits_for_a_claim_of_both(
    priorities: tuple[int, int], cordoned: str, woken: list[str] | None
) -> None:
    contest = terminating_and_small()
    preemptible = []
    for uid, priority in zip(("one", "two"), priorities, strict=True):
        reply = contest.cluster.prefilter(uid, claim("shared"), priority=priority)
        contest.waiting.note_answer(uid, [], 0.0)
        preemptible.append(reply.preemptible)
        if cordoned:
            contest.cluster.add(Node(cordoned, {"name": cordoned}, unschedulable=True))
    assert preemptible == [False, woken is None]
    if woken is not None:
        assert contest.victims("other", priority=HIGH - 1) == ["small"]
        contest.end("terminating")
        assert contest.woken() == woken


def test_who_waited_first_for_a_claim_of_several_pods_looks_for_other_devices() -> None:
    contest = Contest(n1=1, n2=1)
    for node in ("n1", "n2"):
        contest.run(f"on-{node}", node, 0)
    contest.evict("on-n1")
    replies = [contest.cluster.prefilter(uid, claim("shared")) for uid in ("one", "two")]
    contest.evict("on-n2")
    contest.cluster.add(nominate(pod("one", "shared"), "n2"))
    replies += [contest.cluster.prefilter(uid, claim("shared")) for uid in ("one", "two")]
    nodes = [each.message.partition("on a node (")[2][:2] for each in replies]
    assert nodes == ["n1", "n1", "n2", "n2"]


def test_pods_that_wait_for_an_eviction_that_failed_do_not_wait_for_each_other() -> None:
    """The first one evicts again after its time, as often as it takes."""
    contest = Contest(n1=2)
    contest.run("large", "n1", 0, 1)
    assert contest.victims("one") == ["large"]
    contest.cluster.now = 5.0
    assert contest.preempt("two").waiting
    asked = list[tuple[str, list[str]]]()
    for now in range(6, 40):
        for name in [each for each in contest.woken(at=float(now)) if each in {"one", "two"}]:
            asked.append((name, list(contest.preempt(name).victims)))
    assert asked.count(("one", ["large"])) >= 2, asked


def test_a_pod_waits_with_another_one_only_for_its_own_claims() -> None:
    contest = Contest(n1=2)
    contest.run("terminating", "n1", 0, 1)
    contest.evict("terminating")
    for uid, claims in (("one", ("shared", "extra")), ("two", ("shared",))):
        reply = contest.cluster.prefilter(uid, *map(claim, claims))
        assert codes(reply)[0] == "DevicesBeingReleased"
    own = [
        each.paired.own for each in contest.cluster.state.records.having("paired") if each.paired
    ]
    assert own == [{"shared", "extra"}, {"shared"}]


def test_a_pod_does_not_wait_with_another_one_for_devices_that_are_not_beside_its_own() -> None:
    contest = Contest(n1=1, n2=2)
    contest.run("terminating", "n1", 0)
    contest.run("small", "n2", 0)
    contest.evict("terminating")
    contest.share("own", "n2", 1, pods=["other"])
    contest.cluster.add(pod("other", "own", node="n2"))
    contest.enlist("other", "n2", HIGH)
    assert contest.woken() == []
    own = claim("own", version=2, allocation=allocation_on("n2", 1), pods=["other"])
    replies = [
        contest.cluster.prefilter("one", claim("shared"), priority=HIGH - 1),
        contest.cluster.prefilter("two", claim("shared"), own, priority=HIGH),
    ]
    assert [each.preemptible for each in replies] == [False, True]
    contest.waiting.note_answer("two", [], 0.0)
    request = contest.preemption("two")
    assert contest.cluster.decisions.preempt(request, 0.0).victims == ("small",)


@pytest.mark.parametrize("priorities", [(HIGH, HIGH), (HIGH, HIGH - 2), (HIGH - 2, HIGH)], ids=str)
def test_pods_that_wait_for_a_claim_of_both_wait_on_whoever_asks_again(
    priorities: tuple[int, int],
) -> None:
    contest = terminating_and_small()
    asking = dict(zip(("one", "two"), priorities, strict=True))
    for uid in ("one", "two", "one", "two", "one"):
        reply = contest.cluster.prefilter(uid, claim("shared"), priority=asking[uid])
        assert codes(reply)[0] == "DevicesBeingReleased"
        contest.waiting.note_answer(uid, [], 0.0)
        assert contest.woken(contest.cluster.now + 1.0) == []
