"""Generated selectors that nobody built to be expensive are evaluated."""

from drawbridge.cel.meter import MOST_WORK
from tools.generated_selectors import outcomes


def test_no_usual_selector_takes_too_much_work() -> None:
    drawn = list(outcomes(400, seed=7))
    assert [outcome.source for outcome in drawn if outcome.refused] == []
    assert max(outcome.work for outcome in drawn) < MOST_WORK / 4
    assert sum(outcome.work > 0 for outcome in drawn) > 300


def test_a_seed_gives_the_same_selectors_and_the_same_work() -> None:
    first, second = ([(o.source, o.work) for o in outcomes(30, seed=3)] for _ in range(2))
    assert first == second
