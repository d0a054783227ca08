"""Searches that are cut on nodes when the time of a turn is over."""

from collections.abc import Callable

import pytest

from allocator.decisions.shortlist import never
from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.calls import _TURN_SECONDS
from drawbridge.brief import FORGIVEN_SECONDS, USUAL_SECONDS
from drawbridge.solver.world import PoolUse
from tests.allocator.clusters import Cluster, claim, gpu_slice
from tests.allocator.contests import HIGH, Contest
from tests.allocator.cuts import decide_in_a_copy
from tests.allocator.test_cuts import CutOn, T


class SlowOn(CutOn):
    """Takes the time of each search that it cuts, by a clock of its own; nothing else takes any."""

    taken = 0.0

    def run(self, compute: Callable[[], T]) -> T:
        """Return what a function returns; raises CutShort."""
        before = self.cuts
        try:
            return super().run(compute)
        finally:
            if self.cuts > before:
                self.taken += min(self.seconds, USUAL_SECONDS)

    def within(self, seconds: float) -> Callable[[], bool]:
        """Return whether some seconds from now are over."""
        end = self.taken + seconds
        return lambda: self.taken >= end


class CutBesideFree(CutOn):
    """Cuts each search on some nodes of two devices, unless both are held."""

    def run(self, compute: Callable[[], T]) -> T:
        """Return what a function returns; raises CutShort."""
        cells = (each.cell_contents for each in compute.__closure__ or ())
        uses = next(each for each in cells if isinstance(each, tuple) and _are_uses(each))
        is_full = sum(len(each.dedicated) for each in uses) == 2
        return compute() if is_full else super().run(compute)


def _are_uses(cell: tuple[object, ...]) -> bool:
    return all(isinstance(each, PoolUse) for each in cell)


def test_one_node_that_takes_a_whole_turn_neither_delays_nor_charges_a_namespace() -> None:
    made = Cluster(brief=(brief := SlowOn("a")), a=2, b=1)
    waiting = WaitingPods(made.decisions)
    reply = made.prefilter("p", claim("c", 2))
    waiting.note_answer("p", [], 0.0, complete=reply.complete)
    made.add(gpu_slice("a", 2, generation=2), gpu_slice("b", 2, generation=2))
    later = FORGIVEN_SECONDS
    turn = waiting.wake(later, out_of_time=brief.within(_TURN_SECONDS))
    if not turn.woken:  # the turn was over
        assert not turn.aside
        assert not made.state.planner.is_slow
        turn = waiting.wake(later, out_of_time=brief.within(_TURN_SECONDS))
    assert turn.woken == ("p",)
    assert {each.partition("/")[0] for each in made.held()} == {"b"}
    assert not made.state.planner.is_slow


def test_a_pod_whose_search_takes_long_on_each_node_waits_for_a_copy() -> None:
    made = Cluster(brief=(brief := SlowOn(*"abcd")), **dict.fromkeys("abcd", 2))
    waiting = WaitingPods(made.decisions)
    waiting.note_answer("p", [], 0.0, complete=made.prefilter("p", claim("c", 2)).complete)
    later = FORGIVEN_SECONDS
    for _ in range(3):
        if waiting.wake(later, out_of_time=brief.within(_TURN_SECONDS)).aside:
            break
    else:
        pytest.fail("no copy decides")
    assert made.state.planner.is_slow


def test_what_fits_in_front_of_the_node_where_the_time_ends_counts() -> None:
    made = Cluster(brief=(brief := SlowOn("c")), **dict.fromkeys("abcd", 1))
    asked = made.request("p", claim("c"), limit=3)
    reply = made.decisions.prefilter(asked, made.now, brief.within(USUAL_SECONDS / 2))
    assert [each.node for each in reply.fit] == ["a", "b"]
    assert not made.state.planner.is_slow


def test_what_fits_in_front_of_a_node_counts_when_the_time_ends_behind_it() -> None:
    made = Cluster(brief=(brief := CutOn("c")), **dict.fromkeys("abcde", 1))
    asked = 0

    def is_over() -> bool:
        nonlocal asked
        asked += bool(brief.cuts)
        return asked > 1

    request = made.request("p", claim("c"), limit=5)
    reply = made.decisions.prefilter(request, made.now, is_over)
    assert [each.node for each in reply.fit] == ["a", "b"]


@pytest.mark.parametrize(
    ("nodes", "cut", "fits"),
    [
        ("abcdefghijklmnop", "abcehjmn", "p"),
        ("abcdefghijkl", "acdefghijk", "l"),
        ("abcdefghijkl", "abdefghijk", "l"),
        ("abcdefghijklmnop", "abcdeghklm", "n"),
    ],
)
def test_each_node_has_its_turn_between_those_that_change_all_the_time(
    nodes: str, cut: str, fits: str
) -> None:
    sizes = {each: 2 if each in cut + fits else 1 for each in nodes}
    made = Cluster(brief=CutOn(*cut), **sizes)
    waiting = WaitingPods(made.decisions)
    reply = made.prefilter("p", claim("c", 2), limit=1)
    waiting.note_answer("p", [], 0.0, complete=reply.complete)
    for generation in range(2, 8):
        if aside := waiting.wake(1.0).aside:
            decide_in_a_copy(waiting, made.state.planner, aside)
        made.add(*(gpu_slice(each, 2, generation=generation) for each in cut))
    assert {each.partition("/")[0] for each in made.held()} == {fits}


@pytest.mark.parametrize("since", [3, 8, 20])
def test_a_gang_waits_for_no_node_that_changes_when_another_one_grows(since: int) -> None:
    made = Cluster(brief=CutOn("a"), a=2, b=1)
    waiting = WaitingPods(made.decisions)
    for uid in ("m0", "m1"):
        reply = made.ask_group("default/g", "m0", "m1", min_count=2, asking=uid)
        waiting.note_answer(uid, [each.node for each in reply.fit], 0.0, complete=reply.complete)
    for generation in range(2, since + 10):
        if aside := waiting.wake(1.0).aside:
            decide_in_a_copy(waiting, made.state.planner, aside)
        made.add(gpu_slice("a", 2, generation=generation))
        if generation == since:
            assert not made.held()
            assert not made.decisions.groups.is_refused("default/g")
            made.add(gpu_slice("b", 4, generation=2))
    assert {each.partition("/")[0] for each in made.held()} == {"b"}


def ask_for_victims(
    contest: Contest, *asking: str, out_of_time: Callable[[], bool] = never
) -> list[str]:
    """Ask about a gang of two as the scheduler does, and return the pods that are evicted."""
    made, waiting = contest.cluster, contest.waiting
    for uid in asking:
        reply = made.ask_group("default/g", "m0", "m1", min_count=2, asking=uid, priority=HIGH)
        waiting.note_answer(uid, [each.node for each in reply.fit], 0.0, complete=reply.complete)
        if not reply.group_preemptible:
            continue
        request = contest.preemption(uid)
        victims = made.decisions.preempt(request, made.now, out_of_time)
        if victims.evictions:
            return [uid for each in victims.evictions for uid in each.victims]
        assert victims.unfinished
        cut = request if made.state.planner.was_cut else None
        waiting.note_preemption(uid, refused=True, again=True, cut=cut)
    return []


def full_beside_changes(elsewhere: int = 2) -> Contest:
    """Return two full nodes; the search on one takes too long when pods are gone."""
    contest = Contest(CutBesideFree("a"), a=2, b=2)
    for node, number in (("a", 0), ("a", 1), ("b", 0), ("b", 1)):
        # Those of the node that changes are the first to go.
        priority = (node == "b") + (node == "b" and number >= elsewhere) * HIGH
        contest.run(f"{node}-{number}", node, number, priority=priority)
    return contest


def test_a_search_for_victims_that_waits_for_a_copy_takes_no_turns() -> None:
    contest = full_beside_changes()
    ask_for_victims(contest, "m0", out_of_time=lambda: True)
    turns = [contest.waiting.wake(0.0, may_copy=False) for _ in range(9)]
    assert [turn.unfinished for turn in turns[-5:]] == [False] * 5
    assert contest.waiting.wake(0.0).aside


@pytest.mark.parametrize(
    ("elsewhere", "since", "changes", "evicted"),
    [
        (2, 0, True, {"b-0", "b-1"}),
        (1, 12, True, {"b-0", "b-1"}),  # nobody is refused by what is not known
        (1, 0, True, set()),
        (2, 0, False, {"a-0", "a-1"}),
        (1, 0, False, {"a-0", "a-1"}),
    ],
)
def test_a_gang_evicts_pods_beside_a_node_that_changes_all_the_time(
    elsewhere: int, since: int, *, changes: bool, evicted: set[str]
) -> None:
    contest = full_beside_changes(elsewhere)
    made, waiting = contest.cluster, contest.waiting
    victims = ask_for_victims(contest, "m0", "m1", out_of_time=lambda: True)
    for generation in range(2, 99):
        if victims:
            break
        made.now = float(generation)
        # A copy for others can run for many turns.
        turn = waiting.wake(made.now, may_copy=generation % 5 == 0)
        if turn.aside:
            decide_in_a_copy(waiting, made.state.planner, turn.aside, made.now)
        if changes:
            made.add(gpu_slice("a", 2, generation=generation))
        if generation == since:
            contest.enlist("b-1", "b", priority=1)
        victims = ask_for_victims(contest, *turn.woken)
    assert {*victims} == evicted


def test_a_gang_passes_over_a_slow_node_while_the_system_refuses_copies() -> None:
    made = Cluster(brief=CutOn("a"), a=2, b=2)
    waiting = WaitingPods(made.decisions)
    for uid in ("m0", "m1"):
        reply = made.ask_group("default/g", "m0", "m1", min_count=2, asking=uid)
        waiting.note_answer(uid, [each.node for each in reply.fit], 0.0, complete=reply.complete)
    for turn in range(2, 50):
        made.now = float(turn)
        if uid := waiting.wake(made.now).aside:
            waiting.note_copy(uid, 1.0)
        if made.held():
            break
    assert {each.partition("/")[0] for each in made.held()} == {"b"}
