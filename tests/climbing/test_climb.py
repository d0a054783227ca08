"""A moment of the search; `python -m tests.climbing --minutes 60` goes on."""

import itertools
import random

import pytest

from drawbridge.brief import Brief
from tests.climbing.__main__ import LOOPS, small
from tests.climbing.climb import GOALS, Climb, Cost, Input
from tests.cuts import CutAt

CHOICES = {"a": (0, 1, 2, 4, 8), "b": (0, 1, 2, 4, 8), "c": (0, 1)}


def price(given: Input) -> Cost:
    """A cost that no single field explains."""
    return Cost(10_000, given["a"] * given["b"] / (1 + given["c"]), 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_a_climb_reaches_the_most_expensive_input(seed: int) -> None:
    climb = Climb(CHOICES, price, GOALS["held"], random.Random(seed), lambda: False)
    peaks = [*itertools.islice(climb.steps({"a": 0, "b": 0, "c": 1}), 3)]
    assert max(peak.cost.held for peak in peaks) == 64
    assert {"a": 8, "b": 8, "c": 0} in [peak.input for peak in peaks]


def test_a_climb_ends_when_its_time_is_over() -> None:
    measured: list[Input] = []

    def measure(given: Input) -> Cost:
        measured.append(given)
        return price(given)

    climb = Climb(CHOICES, measure, GOALS["held"], random.Random(0), lambda: True)
    assert next(climb.steps({"a": 1, "b": 1, "c": 0})).input == {"a": 1, "b": 1, "c": 0}
    assert len(measured) == 1


@pytest.mark.parametrize("name", LOOPS)
def test_each_loop_receives_small_inputs(name: str) -> None:
    make, choices = LOOPS[name]
    cost = make(Brief())(small(choices))
    assert cost.size > 100
    assert 0 < cost.held <= cost.on_loop


def test_what_is_cut_costs_copies_of_the_process() -> None:
    make, choices = LOOPS["scheduled"]
    given = small(choices) | {"near": 4, "attributes": 4, "requests": 4}
    brief = CutAt(50)
    assert make(brief)(given).copies > 0
    assert brief.cuts
