"""The queue of pods serves namespaces in turn."""

from controller.fair_queue import FairQueue


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
        queue.note_time(space, 2.0 if space == "slow" else 0.01)
    assert served == ["slow", *["quick"] * 3, "slow", "slow"]
