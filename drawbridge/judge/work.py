"""Bounds the work of one judgement, so that no object keeps the judge from the others.

Work is counted before it is done, in units of about 10 microseconds. An expensive evaluation counts
after it, by the work that it took. What is counted depends on the object and the published devices
only, never on time or on what the caches hold, so that an object has the same findings everywhere.
"""

from collections.abc import Hashable
from typing import Final

from drawbridge.solver.expressions import ExpensiveEvaluation

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

    def __init__(self, units: int | None = None) -> None:
        self.left = units
        self._paid: set[Hashable] = set()

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
