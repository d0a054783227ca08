"""Limits what the search on one node takes: steps, and time of the processor.

Each loop whose rounds somebody else's object decides spends steps for them, before or while it
runs. A step takes about 2 µs. The number of steps depends on the claims and the node alone, so that
every process ends a search at the same place; only a judgement limits them. The clock is read once
in a while, and ends the search with the best that it has found.
"""

from collections.abc import Callable
from typing import Final

# Only a copy of the process has a clock. What it has found by then counts.
MOST_SECONDS: Final = 0.5
# Steps between two readings of the clock.
_INTERVAL: Final = 128
_UNLIMITED: Final = 1 << 62


class SearchLimitExceeded(Exception):  # noqa: N818  # not a bug: the result is a failure
    """The search exceeded its step limit, or the time of the processor."""


class WorkMeter:
    """What the work on one node took, and its limits.

    `clock` returns the processor's time of this thread in seconds; without it, time has no limit.
    """

    __slots__ = ("_clock", "_ends", "_next", "is_late", "most", "spent")

    def __init__(self, most: int | None = None, clock: Callable[[], float] | None = None) -> None:
        self.spent = 0
        self.most = _UNLIMITED if most is None else most
        self.is_late = False
        self._clock = clock
        self._ends = 0.0 if clock is None else clock() + MOST_SECONDS
        self._next = self._next_check()

    @property
    def left(self) -> int:
        """The steps that are left."""
        return self.most - self.spent

    def spend(self, steps: int) -> None:
        """Count steps; raises SearchLimitExceeded beyond a limit."""
        self.spent += steps
        if self.spent > self._next:
            self._check()

    def return_to(self, spent: int) -> None:
        """Forget the steps after a number of them, because an equal node took them before."""
        self.spent = spent
        self._next = self._next_check()

    def share(self, steps: int) -> "WorkMeter":
        """Return a meter for a part of the work that has steps of its own, in the same time."""
        part = WorkMeter(None if self.most == _UNLIMITED else steps)
        part._clock, part._ends = self._clock, self._ends
        part._next = part._next_check()
        return part

    def _check(self) -> None:
        self.is_late = self._clock is not None and self._clock() >= self._ends
        if self.is_late or self.spent > self.most:
            raise SearchLimitExceeded
        self._next = self._next_check()

    def _next_check(self) -> int:
        """Return after how many steps in all the limits are checked again."""
        return self.most if self._clock is None else min(self.most, self.spent + _INTERVAL)
