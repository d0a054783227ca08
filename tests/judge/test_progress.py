"""What a judgement that ends early remembers."""

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
    assert progress.answer(lambda: ask(2)) == 1
    with pytest.raises(EndedError):
        progress.answer(lambda: ask(3))
    progress.start(WORLD, do_nothing)
    assert [progress.answer(lambda each=each: ask(each)) for each in (4, 5)] == [1, 5]
    assert asked == [1, 5]


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
    with pytest.raises(EndedError):
        own.remember("b", lambda: 2)
    assert work.remember("a", lambda: 3) == 3
