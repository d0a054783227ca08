"""The pods that wait: who is woken after a change, in which order, and how often."""

import itertools
from typing import Any

import pytest

from allocator.decisions.pod_promises import Promise
from allocator.decisions.pod_tries import PodTries
from allocator.decisions.waiting import WaitingPods
from allocator.decisions.wake_turns import SCHEDULER_SECONDS
from allocator.state.pauses import WAKE_PAUSES
from allocator.state.reserved_pods import PROMISE_SECONDS
from allocator.state.seen_pods import UNSEEN_SECONDS
from drawbridge.dra.nodes import Node
from tests.allocator.clusters import Cluster, allocation_on, claim, gpu_slice, pod
from tests.allocator.contests import Contest


def visits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods that are looked at from now on."""
    visited = []
    is_due = PodTries.is_due

    def visit(self: PodTries, uid: str, now: float) -> bool:
        visited.append(uid)
        return is_due(self, uid, now)

    monkeypatch.setattr(PodTries, "is_due", visit)
    return visited


class Waiting:
    """A cluster whose pods are told no, and its waiting pods."""

    def __init__(self, *, held: int = 0, nodes_per_call: int = 1 << 62, **gpus: int) -> None:
        self.cluster = Cluster(nodes_per_call=nodes_per_call, **gpus)
        self.pods = WaitingPods(self.cluster.decisions)
        for number in range(held):
            allocation = allocation_on("n1", number)
            self.cluster.add_claim(claim(f"held{number}", allocation=allocation, pods=["x"]))

    def ask(self, uid: str, count: int = 1, priority: int = 0, **fields: object) -> list[str]:
        """Ask for a pod as the scheduler does; returns the nodes."""
        reply = self.cluster.prefilter(uid, claim(f"of-{uid}", count), priority=priority, **fields)
        nodes = [each.node for each in reply.fit]
        self.pods.note_answer(uid, nodes, self.cluster.now)
        return nodes

    def reserve(self, uid: str, node: str) -> None:
        """Reserve as the scheduler does."""
        refusal = self.cluster.reserve(uid, node)
        self.pods.note_reservation(uid, reserved=not refusal)

    def free(self, *numbers: int) -> None:
        """Deallocate claims that hold devices of n1."""
        for number in numbers:
            self.cluster.add_claim(claim(f"held{number}", version=2))

    def wake(self, at: float | None = None, tries: int = 100) -> list[str]:
        """Run one turn at a time; returns the pods to wake."""
        self.cluster.now = self.cluster.now if at is None else at
        return list(self.pods.wake(self.cluster.now, tries).woken)


def test_nobody_is_woken_while_nothing_changes() -> None:
    waiting = Waiting(held=1, n1=1)
    assert waiting.ask("p") == []
    assert waiting.wake() == []


def test_a_pod_beyond_the_limit_is_left_to_the_scheduler() -> None:
    waiting = Waiting(held=3, n1=3)
    waiting.cluster.state.records.limit = 3
    waiting.ask("other", namespace="blue")
    for uid in ("a", "b", "c"):
        waiting.ask(uid)
    assert len(waiting.pods) == 3
    waiting.free(0, 1, 2)
    # The oldest of the namespace with most pods is the one that is left out.
    assert waiting.wake() == ["b", "c", "other"]


def test_as_many_pods_are_woken_as_devices_are_free() -> None:
    waiting = Waiting(held=8, n1=8)
    for number in range(200):
        waiting.ask(f"p{number:03}")
    waiting.free(0, 1, 2)
    assert waiting.wake() == ["p000", "p001", "p002"]
    assert waiting.wake() == []


def test_a_higher_priority_is_woken_first_and_then_who_waits_longer() -> None:
    waiting = Waiting(held=4, n1=4)
    for number, (uid, priority) in enumerate([("late", 0), ("low", -5), ("high", 9)]):
        waiting.cluster.now = number + 1.0
        waiting.ask(uid, priority=priority)
    waiting.cluster.now = 0.0
    waiting.ask("early")
    waiting.free(0, 1, 2, 3)
    assert waiting.wake(at=9.0) == ["high", "early", "late", "low"]


def test_pods_that_ask_different_things_are_woken_in_one_order() -> None:
    waiting = Waiting(held=4, n1=4)
    for uid, count, priority in [("one", 1, 1), ("two", 2, 3), ("single", 1, 2), ("four", 4, 9)]:
        waiting.ask(uid, count, priority)
    waiting.free(0, 1, 2)
    assert waiting.wake() == ["two", "single"]


def test_a_woken_pod_gets_its_devices_although_others_ask_first() -> None:
    waiting = Waiting(held=1, n1=1)
    waiting.ask("p")
    waiting.free(0)
    assert waiting.wake() == ["p"]
    assert waiting.ask("q") == []
    assert waiting.ask("p") == ["n1"]
    waiting.reserve("p", "n1")
    assert len(waiting.pods) == 1
    assert waiting.wake() == []


def test_a_woken_pod_keeps_its_devices_between_two_calls_of_the_scheduler() -> None:
    waiting = Waiting(held=1, n1=1)
    waiting.ask("p")
    waiting.ask("q")
    waiting.free(0)
    assert waiting.wake() == ["p"]
    assert waiting.ask("p") == ["n1"]
    assert waiting.wake(at=0.5) == []
    waiting.reserve("p", "n1")
    assert waiting.cluster.decisions.reservations.find("p") is not None


def test_a_woken_pod_that_the_scheduler_rejects_keeps_its_devices_for_a_short_time() -> None:
    waiting = Waiting(held=1, n1=1)
    waiting.ask("p")
    waiting.ask("q")
    waiting.free(0)
    assert waiting.wake() == ["p"]
    assert waiting.ask("p") == ["n1"]
    assert waiting.wake(at=PROMISE_SECONDS) == ["q"]


def test_devices_of_a_woken_pod_that_does_not_come_go_to_the_next_one() -> None:
    waiting = Waiting(held=1, n1=1)
    waiting.ask("p", priority=1)
    waiting.ask("q")
    waiting.free(0)
    assert waiting.wake() == ["p"]
    assert waiting.wake(at=PROMISE_SECONDS / 2) == []
    assert waiting.wake(at=PROMISE_SECONDS) == ["p"]
    assert waiting.wake(at=2 * PROMISE_SECONDS - 1) == []
    assert waiting.wake(at=2 * PROMISE_SECONDS) == ["p"]
    assert waiting.wake(at=3 * PROMISE_SECONDS) == ["q"]


def test_a_pod_that_comes_back_without_a_reservation_waits_longer_each_time() -> None:
    waiting = Waiting(held=1, n1=1)
    waiting.ask("p")
    waiting.free(0)
    woken_at = [tenth / 10 for tenth in range(4000) if waiting.wake(at=tenth / 10)]
    pauses = [after - before for before, after in itertools.pairwise(woken_at)]
    assert pauses[:6] == pytest.approx([2, 2, 4, 8, 16, 32], abs=0.2)
    assert max(pauses) == pytest.approx(WAKE_PAUSES.longest, abs=0.2)


def test_a_pod_that_lacks_something_else_is_not_woken_for_a_node_it_knows() -> None:
    waiting = Waiting(held=2, n1=2, n2=1)
    assert waiting.ask("p") == ["n2"]
    waiting.free(0)
    assert waiting.wake(at=10.0) == ["p"]
    assert sorted(waiting.ask("p")) == ["n1", "n2"]
    waiting.free(1)
    assert waiting.wake(at=100.0) == []
    waiting.cluster.add(Node("n3"), gpu_slice("n3", 1))
    assert waiting.wake(at=200.0) == ["p"]


def test_a_pod_that_got_nodes_has_time_to_be_reserved() -> None:
    waiting = Waiting(held=1, n1=1, n2=1)
    waiting.ask("p")
    waiting.free(0)
    assert waiting.wake(at=0.5) == []
    assert waiting.wake(at=1.0) == ["p"]


def test_a_pod_that_lost_its_devices_at_reserve_can_be_woken_for_the_same_node() -> None:
    waiting = Waiting(n1=1)
    waiting.ask("p")
    waiting.ask("q")
    waiting.reserve("q", "n1")
    waiting.reserve("p", "n1")
    assert waiting.wake(at=10.0) == []
    waiting.cluster.decisions.unreserve("q")
    assert waiting.wake() == ["p"]


@pytest.mark.parametrize("settled", [pod("p", "of-p", node="n1"), None])
def test_a_pod_that_is_bound_or_deleted_is_forgotten(settled: object) -> None:
    waiting = Waiting(held=1, n1=1)
    waiting.ask("p")
    waiting.cluster.state.apply(pod("p", "of-p"), settled)  # type: ignore[arg-type]  # a pod
    waiting.free(0)
    assert waiting.wake() == []
    assert len(waiting.pods) == 0


def test_a_pod_whose_claim_is_deleted_is_left_to_the_scheduler() -> None:
    waiting = Waiting(held=1, n1=1)
    waiting.ask("p")
    waiting.cluster.delete_claim("of-p")
    waiting.free(0)
    assert waiting.wake() == []
    assert len(waiting.pods) == 0


def test_a_pass_ends_although_its_last_pod_is_removed() -> None:
    waiting = Waiting(held=3, n1=3)
    waiting.ask("first", 2)
    waiting.ask("second", 3)
    waiting.ask("third")
    waiting.cluster.delete_claim("of-third")
    waiting.free(0)
    turn = waiting.pods.wake(waiting.cluster.now, tries=4)
    assert (turn.woken, turn.unfinished, len(waiting.pods)) == ((), False, 2)


def test_a_turn_does_a_limited_number_of_searches_and_says_that_more_is_left() -> None:
    waiting = Waiting(held=8, n1=8)
    for number in range(8):
        waiting.ask(f"p{number}")
    waiting.free(*range(8))
    first = waiting.pods.wake(0.0, 3)
    assert (len(first.woken), first.unfinished) == (3, True)
    second = waiting.pods.wake(0.0, 100)
    assert (len(second.woken), second.unfinished) == (5, False)


def test_a_turn_that_is_out_of_time_still_makes_progress() -> None:
    waiting = Waiting(held=2, n1=2)
    waiting.ask("p")
    waiting.ask("q")
    waiting.free(0, 1)
    assert waiting.pods.wake(0.0, 100, lambda: True)[:2] == (("p",), True)
    assert waiting.pods.wake(0.0, 100, lambda: True).woken == ("q",)


def test_the_search_for_a_pod_continues_until_all_nodes_were_examined() -> None:
    waiting = Waiting(nodes_per_call=2, n1=1, n2=1, n3=1, n4=1, n5=1, n6=1, n7=2)
    assert waiting.ask("p", 2) == []
    assert waiting.wake(tries=3) == ["p"]
    assert waiting.ask("hopeless", 3) == []
    assert waiting.pods.wake(0.0, 2)[:2] == ((), True)
    assert waiting.pods.wake(0.0, 9)[:2] == ((), False)


def test_a_pod_has_its_turn_although_pods_before_it_never_fit_and_the_state_changes() -> None:
    waiting = Waiting(held=1, n1=1)
    for number in range(200):
        waiting.ask(f"hopeless{number}", 2 + number)
    waiting.cluster.now = 1.0
    waiting.ask("p")
    waiting.free(0)
    turns = 0
    while not waiting.wake(tries=8):
        waiting.cluster.add(Node("n1", {"changes": f"{turns}"}))
        turns += 1
        assert turns < 60


def test_a_device_that_is_free_in_the_middle_of_a_pass_is_for_the_highest_priority() -> None:
    waiting = Waiting(held=1, n1=1)
    waiting.ask("high", priority=1)
    for number in range(20):
        waiting.ask(f"low{number}", 1, nodeSelector={"name": "n1", "n": f"{number}"})
        waiting.ask(f"hopeless{number}", 2 + number)
    waiting.cluster.add(Node("n2"))
    assert waiting.pods.wake(0.0, 8)[:2] == ((), True)
    waiting.free(0)
    assert waiting.wake(tries=8) == ["high"]


def test_a_turn_without_a_change_visits_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(held=1, n1=1)
    waiting.ask("p")
    waiting.wake()
    for visit in ("take", "places_from_first"):
        monkeypatch.setattr(waiting.cluster.state.records.to_try, visit, None)
    assert waiting.wake(at=10.0) == []


def test_a_pod_that_comes_back_during_its_back_off_is_woken_at_its_end() -> None:
    waiting = Waiting(held=1, n1=1)
    waiting.ask("p")
    waiting.free(0)
    assert waiting.wake() == ["p"]
    waiting.cluster.now = PROMISE_SECONDS
    assert waiting.wake() == ["p"]  # from now on its back-off is 2 s
    assert waiting.ask("p") == ["n1"]
    waiting.reserve("p", "n1")
    assert waiting.pods.next_time() is None
    waiting.cluster.decisions.unreserve("p")
    waiting.cluster.now = 3.0
    assert waiting.ask("p") == ["n1"]
    assert waiting.pods.next_time() == 4.0


def test_the_next_time_is_the_end_of_the_first_back_off() -> None:
    waiting = Waiting(held=1, n1=1)
    assert waiting.pods.next_time() is None
    waiting.ask("p")
    assert waiting.pods.next_time() is None
    waiting.free(0)
    waiting.wake(at=5.0)
    assert waiting.pods.next_time() == 6.0


def test_the_pods_behind_the_last_free_device_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = Waiting(held=8, n1=8)
    for number in range(200):
        waiting.ask(f"p{number:03}", count=1 + number % 2)
    visited = visits(monkeypatch)
    assert waiting.wake() == []
    assert visited == []
    waiting.free(0, 1)
    assert waiting.wake() == ["p000", "p002"]
    assert len(visited) <= 10


def test_a_pod_that_asks_less_is_found_behind_pods_that_cannot_fit() -> None:
    waiting = Waiting(held=8, n1=8)
    for number in range(100):
        waiting.ask(f"p{number:03}", count=8)
    waiting.ask("small")
    waiting.free(0)
    assert waiting.wake() == ["small"]


def test_a_bug_for_one_pod_does_not_keep_others_from_being_woken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = Waiting(held=1, n1=1)
    promise = waiting.cluster.decisions.promises.make

    def fail_for_first(uid: str, *arguments: Any) -> Promise:  # noqa: ANN401  # passed on
        if uid == "first":
            raise StopIteration
        return promise(uid, *arguments)

    monkeypatch.setattr(waiting.cluster.decisions.promises, "make", fail_for_first)
    for uid in ("first", "second"):
        assert waiting.ask(uid) == []
    waiting.cluster.delete_claim("held0")
    assert list(waiting.pods.wake(waiting.cluster.now).woken) == ["second"]
    assert len(waiting.pods) == 1


def test_a_pod_is_woken_to_release_its_claims_also_if_it_does_not_wait() -> None:
    cluster = Cluster(n1=1)
    waiting = WaitingPods(cluster.decisions)
    cluster.state.records.times.set("retry", "p", 5.0)
    assert waiting.next_time() == 5.0
    assert waiting.wake(4.9).woken == ()
    assert waiting.wake(5.0).woken == ("p",)
    assert waiting.wake(100.0).woken == ()


@pytest.mark.parametrize("is_asked_again", [False, True])
def test_a_pod_that_no_watch_shows_and_nobody_asks_about_is_forgotten(
    *, is_asked_again: bool
) -> None:
    cluster = Cluster(n1=1)
    waiting = WaitingPods(cluster.decisions)
    cluster.add(pod("seen", "of-seen"))
    for uid in ("ghost", "seen"):
        nodes = cluster.nodes(uid, claim(f"of-{uid}", 9))
        waiting.note_answer(uid, nodes, cluster.now)
    cluster.now = UNSEEN_SECONDS / 2
    if is_asked_again:
        cluster.nodes("ghost", claim("of-ghost", 9))
    waiting.end_settled(UNSEEN_SECONDS)
    records = cluster.state.records
    assert sorted(records) == (["ghost", "seen"] if is_asked_again else ["seen"])
    waiting.end_settled(2 * UNSEEN_SECONDS)
    assert list(records) == ["seen"]
    assert records.times.get("unseen", "ghost") is None


def test_a_pod_with_devices_is_not_forgotten_because_no_watch_shows_it() -> None:
    cluster = Cluster(n1=1)
    waiting = WaitingPods(cluster.decisions)
    cluster.schedule("held", claim("of-held"))
    waiting.end_settled(UNSEEN_SECONDS)
    assert cluster.held() == ["n1/gpu-0"]
    cluster.decisions.unreserve("held", UNSEEN_SECONDS)
    waiting.end_settled(2 * UNSEEN_SECONDS)
    assert not len(cluster.state.records)


def test_a_pod_without_claims_is_remembered_as_long_as_the_watch_shows_it() -> None:
    cluster = Cluster(n1=1)
    waiting = WaitingPods(cluster.decisions)
    cluster.add(launcher := pod("launcher"))
    cluster.prefilter("launcher")
    waiting.end_settled(UNSEEN_SECONDS)
    assert list(cluster.state.records) == ["launcher"]
    del cluster.pods["default", "launcher"]
    cluster.state.apply(launcher, None)
    waiting.end_settled(2 * UNSEEN_SECONDS)
    assert not len(cluster.state.records)


def ask_in_vain(contest: Contest, *uids: str) -> None:
    """Let pods ask that are refused devices and victims."""
    for uid in uids:
        contest.cluster.add(pod(uid, f"of-{uid}"))
        assert contest.ask(uid) == []
        contest.waiting.note_preemption(uid, refused=True)


def test_many_pods_that_were_refused_victims_ask_again_some_in_each_turn() -> None:
    contest = Contest(n1=0)
    ask_in_vain(contest, "p1", "p2", "p3")
    assert contest.woken() == []
    contest.cluster.add(pod("other", "of-other", node="n9"))
    turns = [contest.waiting.wake(0.0, out_of_time=lambda: True) for _ in range(4)]
    assert [each.woken for each in turns] == [("p1",), ("p2",), ("p3",), ()]
    assert [each.unfinished for each in turns[:2]] == [True, True]
    assert contest.woken(at=100.0) == []


def test_pods_that_were_refused_victims_ask_again_when_nodes_change_but_not_their_use() -> None:
    contest = Contest(n1=2)
    held = allocation_on("n1", 0)
    contest.cluster.add_claim(claim("c1", allocation=held, pods=["low"]))
    for uid in ("p1", "p2"):
        contest.cluster.add(pod(uid, f"of-{uid}"))
        assert contest.ask(uid, 2) == []
        contest.waiting.note_preemption(uid, refused=True)
    assert contest.woken() == []
    epoch = contest.cluster.state.epoch()
    contest.cluster.schedule("other", claim("of-other"))
    assert contest.cluster.state.epoch() != epoch
    assert contest.woken() == []
    contest.cluster.state.apply(None, Node("n1", {"changed": ""}))
    assert contest.woken() == ["p1", "p2"]
    assert contest.woken(at=SCHEDULER_SECONDS - 0.1) == []
    assert contest.waiting.next_time() == SCHEDULER_SECONDS
    # When they asked, kube-scheduler may not have heard of the node.
    assert contest.woken(at=SCHEDULER_SECONDS) == ["p1", "p2"]
    assert contest.woken(at=100.0) == []


def test_a_pod_whose_pause_ends_comes_before_those_that_ask_behind_it() -> None:
    contest = Contest(n1=0)
    ask_in_vain(contest, "p1", "p2", "p3")
    assert contest.woken() == []
    contest.waiting.note_preemption("p1", refused=True, again=True)
    assert contest.woken() == ["p1"]
    contest.waiting.note_preemption("p1", refused=True, again=True)
    contest.cluster.add(pod("other", "of-other", node="n9"))
    assert contest.waiting.wake(0.0, out_of_time=lambda: True).woken == ("p2",)
    turns = [contest.waiting.wake(1.0, out_of_time=lambda: True) for _ in range(6)]
    assert [uid for each in turns for uid in each.woken] == ["p1", "p3"]


def test_the_ends_of_many_pods_take_several_turns_and_nobody_is_woken_before_the_last() -> None:
    waiting = Waiting(held=1, n1=1)
    for uid in ("p", "q", "r", "s"):
        waiting.ask(uid)
        waiting.cluster.add(pod(uid, f"c-{uid}"))
    for uid in ("p", "q", "r"):
        waiting.cluster.state.apply(waiting.cluster.pods["default", uid], None)
    waiting.free(0)
    turns = [waiting.pods.wake(0.0, out_of_time=lambda: True) for _ in range(3)]
    assert [each.woken for each in turns] == [(), (), ("s",)]
    assert [each.unfinished for each in turns[:2]] == [True, True]
    assert list(waiting.cluster.state.records) == ["s"]


def test_a_pod_gets_no_devices_that_is_bound_before_the_scheduler_hears_of_it() -> None:
    waiting = Waiting(held=1, n1=1)
    waiting.cluster.add(pod("p", "of-p", node="n2"))
    assert waiting.wake(0.0) == []  # its record has ended before the question
    assert not waiting.ask("p")
    waiting.free(0)
    assert [waiting.wake(at) for at in (2.0, 60.0)] == [[], []]
    assert not waiting.cluster.held()
    waiting.cluster.add(pod("p", "of-p"))  # etcd is restored
    waiting.cluster.add(gpu_slice("n1", 1, generation=2))
    assert waiting.wake(62.0) == ["p"]
