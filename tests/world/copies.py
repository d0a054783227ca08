"""Computations that take too long for their process, and the copies of it that go on with them."""

import math
import random
from collections.abc import Callable
from typing import TypeVar

from drawbridge.brief import CutShort
from drawbridge.process.alarm import CutAlarm

T = TypeVar("T")
# The seconds until a copy has told a part of its result, and then the rest. No copy has the last.
_PAUSES = (0.01, 0.01, 0.1, 1.0, 8.0, 25.0)


class Copies:
    """Cuts some computations of our processes, and lets their copies be slow."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"copies {seed}")
        self.part = 0.0  # how many of all computations are cut
        self.cuts = self.copies = 0

    def run(self, alarm: CutAlarm, compute: Callable[[], T]) -> T:
        """Return what a function returns; raises CutShort, at once or when it has learnt all."""
        if alarm.seconds == math.inf or self._random.random() >= self.part:
            return compute()
        self.cuts += 1
        if self._random.random() < 0.5:
            compute()
        raise CutShort

    def tell(self, data: bytes) -> list[tuple[float, bytes]]:
        """Return what a copy tells, in two parts, each some seconds after the one before."""
        self.copies += 1
        if not self.part:
            return [(0.0, data)]
        at = self._random.randrange(len(data) + 1)
        first, second = self._random.choices(_PAUSES, k=2)
        return [(first, data[:at]), (second, data[at:])]
