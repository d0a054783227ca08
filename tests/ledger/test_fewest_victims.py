"""The search for the fewest victims finds what a check of each candidate finds, in fewer steps."""

from collections.abc import Callable, Collection
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.ledger.victims import remove_fewest


def check_each(
    candidates: list[int], kept_first: list[int], fits_without: Callable[[Collection[int]], bool]
) -> list[int]:
    """Keep each candidate that can be kept, one after the other."""
    removed = list(candidates)
    for pod in kept_first:
        without = [other for other in removed if other != pod]
        if fits_without(without):
            removed = without
    return removed


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=9),
    st.integers(0, 9),
    st.integers(0, 9),
    st.randoms(use_true_random=False),
)
def test_the_result_is_that_of_a_check_of_each_candidate(
    amounts: list[tuple[int, int]], first: int, other: int, random: Random
) -> None:
    def fits_without(removed: Collection[int]) -> bool:
        freed = [amounts[each] for each in removed]
        return sum(a for a, _ in freed) >= first and sum(b for _, b in freed) >= other

    candidates = list(range(len(amounts)))
    order = list(candidates)
    random.shuffle(order)
    if fits_without(candidates):
        chosen = remove_fewest(candidates, order, fits_without)
        assert chosen == check_each(candidates, order, fits_without)


@pytest.mark.parametrize("count", [1, 8, 100])
def test_the_last_candidate_is_found_in_two_steps(count: int) -> None:
    asked = []

    def fits_without(removed: Collection[int]) -> bool:
        asked.append(removed)
        return bool(removed)

    candidates = list(range(1000, 1000 + count))
    assert remove_fewest(candidates, candidates, fits_without) == [1000 + count - 1]
    assert len(asked) <= 2
