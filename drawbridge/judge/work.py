"""Bounds the work of one judgement, so that no object keeps the judge from the others.

Work is counted before it is done, in units of about 10 microseconds. An expensive evaluation counts
after it, by the work that it took. What is counted depends on the object and the published devices
only, never on time or on what the caches hold, so that an object has the same findings everywhere.
"""

from collections.abc import Callable, Hashable
from typing import Final, TypeVar

from drawbridge.judge.progress import Progress
from drawbridge.solver.expressions import ExpensiveEvaluation

T = TypeVar("T")

# To solve, narrow and explain: enough to compare one attribute of all devices of 10,000 nodes.
DEVICE_UNITS: Final = 100_000
# Every other question.
QUESTION_UNITS: Final = 50_000
# The steps of one search in a proof, and the work of its bounds.
SEARCH_UNITS: Final = 20_000
# What one unit pays for: characters to compile, small comparisons. It also pays for an evaluation,
# and for a step of one that takes longer (`drawbridge.solver.expressions`).
CHARACTERS: Final = 2
COMPARISONS: Final = 10
EXHAUSTED: Final = "the object needs more comparisons than one judgement makes"


class WorkExhaustedError(Exception):
    """The work that a judgement needs is more than it may do."""


class Work:
    """The work that is left for a question. Without a limit, nothing is counted."""

    def __init__(self, units: int | None = None, progress: Progress | None = None) -> None:
        self.left = units
        self._progress = progress
        self._paid: set[Hashable] = set()

    def copy(self, progress: Progress) -> "Work":
        """Return the same work left, which is spent apart, in a judgement with this progress."""
        other = Work(self.left, progress)
        other._paid = set(self._paid)
        return other

    @property
    def search_limit(self) -> int | None:
        """The work of one search on one node at most."""
        return None if self.left is None else SEARCH_UNITS

    def spend(self, units: int) -> None:
        """Count work that is about to be done. Raise WorkExhaustedError if too little is left."""
        if self.left is None:
            return
        self.left -= units
        if self.left < 0:
            self.left = 0
            raise WorkExhaustedError(EXHAUSTED)

    def spend_once(self, key: Hashable, units: int) -> None:
        """Count work whose result is kept for the rest of the judgement."""
        if self.left is not None and key not in self._paid:
            self._paid.add(key)
            self.spend(units)

    def spend_comparisons(self, number: int) -> None:
        """Count small comparisons."""
        self.spend(number // COMPARISONS)

    def spend_evaluation(self, evaluation: ExpensiveEvaluation) -> None:
        """Count an expensive evaluation, whose result is kept."""
        self.spend_once(evaluation, evaluation.steps)

    def spend_reading(self, text: str) -> None:
        """Count the compilation of an expression."""
        self.spend_once(text, 1 + len(text) // CHARACTERS)

    def remember(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return a value, which is computed once in a judgement that is made in parts."""
        return compute() if self._progress is None else self._progress.remember(key, compute)

    def step(self, key: Hashable, take: Callable[[], T]) -> T:
        """Return a step, which is taken once in a judgement that is made in parts.

        Its work counts in each part, because the steps after it may do only what is left. A step
        that is taken again after other work is another one: it may find part of its work paid.
        """
        if self._progress is None:
            return take()

        def take_and_count() -> tuple[T, int | None, set[Hashable]]:
            return take(), self.left, set(self._paid)

        value, self.left, paid = self._progress.step((key, self.left), take_and_count)
        self._paid = set(paid)
        return value
