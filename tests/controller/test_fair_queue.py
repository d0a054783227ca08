"""The queue of pods serves namespaces in turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.fair_queue import FairQueue
from drawbridge.turn_times import TurnTimes


def test_namespaces_take_turns() -> None:
    queue = FairQueue()
    queue.update([("a", "1"), ("a", "2"), ("a", "3"), ("b", "1")])
    assert list(queue.drain()) == [("a", "1"), ("b", "1"), ("a", "2"), ("a", "3")]
    assert len(queue) == 0


def test_a_pod_waits_once() -> None:
    queue = FairQueue()
    queue.update([("a", "1"), ("a", "1")])
    assert list(queue.drain()) == [("a", "1")]


def test_a_discarded_pod_is_not_served() -> None:
    queue = FairQueue()
    queue.update([("a", "1"), ("a", "2"), ("b", "1")])
    for key in (("b", "1"), ("a", "2"), ("a", "9"), ("c", "1")):
        queue.discard(key)
    assert list(queue.drain()) == [("a", "1")]


def test_a_pod_that_is_added_meanwhile_takes_its_turn_and_the_others_stay() -> None:
    queue = FairQueue()
    queue.update([("a", f"{i}") for i in range(5)])
    served = []
    for key in queue.drain():
        if not served:
            queue.add(("b", "1"))
        served.append(key)
    assert len(served) == 5, "a run ends even if pods are added without end"
    assert served.index(("b", "1")) < 3
    assert list(queue.drain()) == [("a", "4")]


def test_a_queue_that_is_emptied_meanwhile_ends() -> None:
    queue = FairQueue()
    queue.update([("a", "1"), ("a", "2")])
    for _ in queue.drain():
        queue.discard(("a", "2"))
    assert len(queue) == 0


def test_a_namespace_whose_turns_take_long_comes_after_the_others() -> None:
    queue = FairQueue()
    queue.update([(space, f"{number}") for space in ("slow", "quick") for number in range(3)])
    served = []
    for space, _ in queue.drain():
        served.append(space)
        queue.note_turn(space, 2.0 if space == "slow" else 0.01)
    assert served == ["slow", *["quick"] * 3, "slow", "slow"]


def test_a_namespace_whose_turn_failed_comes_after_the_others_until_one_succeeds() -> None:
    queue = FairQueue()
    served = []
    for failing in ("abc", "a", "", ""):
        queue.update([(space, "1") for space in "abcd"])
        for space, _ in queue.drain():
            served.append(space)
            queue.note_turn(space, 2.0 if space == "d" else 1.0, failed=space in failing)
        served.append("|")
    assert " ".join(served) == "a b c d | d a b c | b c d a | b c a d |"


def test_a_failure_of_a_namespace_that_waits_no_more_is_forgotten() -> None:
    queue = FairQueue()
    queue.update([("a", "1"), ("a", "2")])
    next(queue.drain())
    queue.note_turn("a", 0.0, failed=True)
    queue.discard(("a", "2"))
    assert list(queue.drain()) == []
    queue.update([("a", "3"), ("b", "1")])
    assert [space for space, _ in queue.drain()] == ["a", "b"]


KEYS = st.tuples(st.sampled_from("abcd"), st.sampled_from("0123"))


@given(st.lists(KEYS, unique=True), st.data())
def test_turns_go_to_the_namespace_whose_turns_took_least(
    keys: list[tuple[str, str]], data: st.DataObject
) -> None:
    queue, times = FairQueue(), TurnTimes[str]()
    queue.update(keys)
    waiting: dict[str, list[str]] = {}
    for space, name in keys:
        waiting.setdefault(space, []).append(name)
    for served in queue.drain():
        space = times.choose(waiting)
        name, *left = waiting.pop(space)
        if left:
            waiting[space] = left
        assert served == (space, name)
        noted = data.draw(st.sampled_from([space, "a"]), "noted")
        seconds = data.draw(st.sampled_from([0.0, 1.0, 2.0]), "seconds")
        queue.note_turn(noted, seconds)
        times.note(noted, seconds)
    assert not waiting


def test_a_turn_does_not_look_at_all_namespaces_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    taken = TurnTimes.taken

    def look(times: TurnTimes[str], name: str) -> float:
        looks.append(name)
        return taken(times, name)

    monkeypatch.setattr(TurnTimes, "taken", look)
    queue = FairQueue()
    queue.update((f"{number % 500}", f"{number}") for number in range(1000))
    for space, _ in queue.drain():
        queue.note_turn(space, 0.001)
    assert len(set(looks)) == 500
    assert len(looks) < 10 * 1000


def test_namespaces_whose_pods_are_discarded_are_not_kept() -> None:
    queue = FairQueue()
    for number in range(100):
        queue.add((f"{number}", "p"))
        queue.discard((f"{number}", "p"))
        assert list(queue.drain()) == []
    assert len(queue._waiting) == len(queue._turns) == 0  # noqa: SLF001  # what it keeps
