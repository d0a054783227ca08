"""Judgements refuse nothing that Kubernetes' allocator can satisfy.

A small share of `python -m e2e.differential.judged 0:2720`, which runs each week and before a
release.
"""

import pytest

from e2e.differential.judged import (
    GENERATED,
    Tally,
    describe,
    judge_scenario,
    judge_seeds,
    without_config,
)
from e2e.generator import scenario
from tests.thorough import drawn

SIZE = drawn(10, thorough=20)
BLOCKS = [range(first, first + SIZE) for first in range(3000, 3000 + drawn(10, thorough=400), SIZE)]


@pytest.mark.usefixtures("oracle")
@pytest.mark.parametrize("seeds", BLOCKS, ids=lambda seeds: str(seeds[0]))
def test_nothing_is_refused_that_the_allocator_can_satisfy(seeds: range) -> None:
    tally = judge_seeds(seeds)
    assert tally.wrong == []
    # Both sides of the boundary are there, and what is impossible is seldom missed.
    assert tally.satisfiable > 5
    assert tally.unsatisfiable[GENERATED] < tally.unsatisfiable.total()
    reported = tally.refused.total() + tally.warned.total()
    assert reported >= 0.8 * tally.unsatisfiable.total(), describe(tally)


@pytest.mark.usefixtures("oracle")
def test_a_wrong_refusal_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = (judge_scenario(without_config(scenario(seed))) for seed in range(100))
    impossible = next(found for found in judged if any(e.severity == "error" for e in found))
    monkeypatch.setattr("e2e.differential.judged.judge_scenario", lambda _: impossible)
    tally = Tally()
    tally.add(judge_seeds(range(3)))
    assert tally.wrong
