"""What a judgement that ends early remembers."""

from functools import partial

import pytest

from drawbridge.judge.progress import Progress
from drawbridge.judge.work import Work
from drawbridge.solver.expressions import do_nothing
from tests.judge.fleets import FLEETS, context

WORLD = context(FLEETS["two products"]).world
OTHER = context(FLEETS["two products"]).world


class EndedError(Exception):
    """A part of a judgement ends."""


def end() -> None:
    """End the part."""
    raise EndedError


def test_a_question_is_asked_once_in_all_parts() -> None:
    progress, asked = Progress(), []

    def ask(number: int) -> int:
        asked.append(number)
        return number

    progress.start(WORLD, do_nothing)
    assert progress.answer(lambda: ask(1)) == 1
    progress.start(WORLD, end)
    assert [progress.answer(lambda each=each: ask(each)) for each in (2, 3)] == [1, 3]
    with pytest.raises(EndedError):
        progress.answer(lambda: ask(4))
    progress.start(WORLD, do_nothing)
    assert [progress.answer(lambda each=each: ask(each)) for each in (5, 6, 7)] == [1, 3, 7]
    assert asked == [1, 3, 7]


def test_a_part_ends_only_after_something_new() -> None:
    progress = Progress()
    for number in range(5):
        progress.start(WORLD, end)
        assert [progress.step(each, lambda: None) for each in range(number + 1)]
        with pytest.raises(EndedError):
            progress.step(number + 1, lambda: None)


def test_a_question_that_is_answered_does_not_end_a_part() -> None:
    progress = Progress()
    progress.start(WORLD, do_nothing)
    assert progress.answer(lambda: 1) == 1
    progress.start(WORLD, end)
    assert progress.remember("a", lambda: 2) == 2
    assert progress.answer(lambda: 3) == 1


def test_steps_of_another_world_are_forgotten() -> None:
    progress = Progress()
    progress.start(WORLD, do_nothing)
    assert progress.step("a", lambda: 1) == 1
    progress.start(OTHER, do_nothing)
    assert progress.step("a", lambda: 2) == 2


def test_the_work_of_a_step_counts_in_each_part() -> None:
    progress, work = Progress(), Work(10)

    def take(own: Work) -> str:
        own.spend_once("reading", 3)
        return "taken"

    for _ in range(2):
        progress.start(WORLD, do_nothing)
        own = work.copy(progress)
        assert own.step("a", lambda own=own: take(own)) == "taken"
        own.spend_once("reading", 3)
        assert own.left == 7


def test_a_step_that_is_taken_again_gives_no_work_back() -> None:
    progress, lefts = Progress(), []

    def spend(own: Work, name: str) -> None:
        own.spend_once(name, 3)

    for in_parts in (progress, progress, None):
        progress.start(WORLD, do_nothing)
        own = Work(20, in_parts)
        for name in ("a", "b", "a", "c", "a"):
            own.step(name, partial(spend, own, name))
        lefts.append(own.left)
    assert lefts == [11, 11, 11]


def test_a_question_that_fails_is_asked_again() -> None:
    progress = Progress()
    progress.start(WORLD, do_nothing)
    with pytest.raises(EndedError):
        progress.answer(end)
    assert progress.answer(lambda: 1) == 1


def test_answers_about_another_world_are_forgotten() -> None:
    progress = Progress()
    progress.start(WORLD, do_nothing)
    assert progress.answer(lambda: 1) == 1
    progress.start(OTHER, do_nothing)
    assert progress.answer(lambda: 2) == 2


def test_what_is_remembered_is_computed_once_in_all_parts() -> None:
    progress, work = Progress(), Work(10)
    progress.start(WORLD, do_nothing)
    own = work.copy(progress)
    assert own.remember("a", lambda: 1) == 1
    progress.start(OTHER, end)
    assert own.remember("a", lambda: 2) == 1
    assert own.remember("b", lambda: 2) == 2
    with pytest.raises(EndedError):
        own.remember("c", lambda: 2)
    assert work.remember("a", lambda: 3) == 3
