"""Counts the steps of the search on one node, and limits its time of the processor.

Each loop whose rounds somebody else's object decides spends steps for them, before or while it
runs. A step takes about 2 µs. A clock is read once in a while, and ends the search with the best
that it has found.
"""

from collections.abc import Callable
from typing import Final

# Only a copy of the process has a clock. What it has found by then counts.
MOST_SECONDS: Final = 0.5
# Steps between two readings of the clock.
_INTERVAL: Final = 128
_NEVER: Final = 1 << 62


class SearchLimitExceeded(Exception):  # noqa: N818  # not a bug: the result is a failure
    """The search took too many steps, or too much time of the processor."""


class WorkMeter:
    """The steps that the work on one node took.

    `clock` returns the processor's time of this thread in seconds; without it, time has no limit.
    """

    __slots__ = ("_clock", "_ends", "_next", "is_late", "spent")

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.spent = 0
        self.is_late = False
        self._clock = clock
        self._ends = 0.0 if clock is None else clock() + MOST_SECONDS
        self._next = self._next_check()

    def spend(self, steps: int) -> None:
        """Count steps; raises SearchLimitExceeded if the time is over."""
        self.spent += steps
        if self.spent > self._next:
            self._check()

    def return_to(self, spent: int) -> None:
        """Forget the steps after a number of them, because an equal node took them before."""
        self.spent = spent
        self._next = self._next_check()

    def _check(self) -> None:
        self.is_late = self._clock is not None and self._clock() >= self._ends
        if self.is_late:
            raise SearchLimitExceeded
        self._next = self._next_check()

    def _next_check(self) -> int:
        """Return after how many steps in all the clock is read again."""
        return _NEVER if self._clock is None else self.spent + _INTERVAL
