"""The fewest pods without which something fits, compared with all sets; searches that end early."""

import random
from collections.abc import Collection, Iterator
from itertools import combinations

import pytest

from drawbridge.ledger.removals import OutOfTriesError, Tries, find_fewest
from drawbridge.ledger.victims import RunningPod

Names = frozenset[str]


def running(number: int) -> list[RunningPod]:
    return [RunningPod("default", f"p{at}", "n1") for at in range(number)]


class Question:
    """Fits once one of some sets of pods is gone, as every question about devices."""

    def __init__(self, sufficient: Collection[Names], tries: Tries) -> None:
        self.sufficient = sufficient
        self.tries = tries

    def __call__(self, removed: Collection[RunningPod]) -> bool:
        """Whether it fits without some pods."""
        self.tries.take()
        names = {each.pod_name for each in removed}
        return any(names.issuperset(each) for each in self.sufficient)


def drawn(seed: int) -> tuple[list[RunningPod], list[Names]]:
    """Return up to eight pods, and up to three sets of them that are enough."""
    draw = random.Random(seed)  # not for secrets
    pods = running(draw.randint(0, 8))
    names = [each.pod_name for each in pods]
    count = draw.randint(0, 3)
    return pods, [frozenset(draw.sample(names, draw.randint(0, len(names)))) for _ in range(count)]


def sets_by_size(pods: list[RunningPod]) -> Iterator[tuple[RunningPod, ...]]:
    return (each for size in range(len(pods) + 1) for each in combinations(pods, size))


@pytest.mark.parametrize("seed", range(200))
def test_no_smaller_set_is_enough(seed: int) -> None:
    pods, sufficient = drawn(seed)
    tries = Tries()
    question = Question(sufficient, tries)
    fewest = find_fewest(pods, question, tries)
    best = next((each for each in sets_by_size(pods) if question(each)), None)
    assert fewest.proven
    assert (fewest.pods is None) == (best is None)
    if fewest.pods is not None and best is not None:
        assert len(fewest.pods) == len(best)
        assert question(fewest.pods)


@pytest.mark.parametrize("seed", range(50))
def test_a_search_that_ends_early_says_so_and_names_only_pods_that_are_needed(seed: int) -> None:
    pods, sufficient = drawn(seed)
    tries = Tries(3)
    question = Question(sufficient, tries)
    fewest = find_fewest(pods, question, tries)
    tries.allow(1000)
    if fewest.pods is not None:
        assert question(fewest.pods)
        if not fewest.proven:
            for gone in fewest.pods:
                assert not question([each for each in fewest.pods if each is not gone])


def test_without_time_nothing_is_tried_and_nothing_is_claimed() -> None:
    tries = Tries(out_of_time=lambda: True)
    question = Question([frozenset()], tries)
    fewest = find_fewest(running(2), question, tries)
    assert (fewest.pods, fewest.proven) == (None, False)
    with pytest.raises(OutOfTriesError):
        tries.take()
