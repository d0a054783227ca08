"""Draws seeded values.

Uses only `Random.random()`, whose sequence Python guarantees across versions. `choice` and
`shuffle` may change, and a seed must always give the same scenario.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """A stream of choices that depends on its seed and on nothing else."""

    def __init__(self, seed: int) -> None:
        self._stream = random.Random(seed)

    def chance(self, share: float) -> bool:
        """Answer yes in this share of calls."""
        return self._stream.random() < share

    def number(self, low: int, high: int) -> int:
        """One of low to high, both included."""
        return low + int(self._stream.random() * (high - low + 1))

    def pick(self, options: Sequence[T]) -> T:
        """One of them, all equally likely."""
        return options[self.number(0, len(options) - 1)]

    def some(self, options: Sequence[T], share: float) -> list[T]:
        """Those that were chosen, each with the same chance, in their order."""
        return [option for option in options if self.chance(share)]

    def weighted(self, options: dict[T, float]) -> T:
        """One of the keys, as likely as its value says; the values add up to one."""
        point = self._stream.random()
        for option, share in options.items():
            point -= share
            if point < 0:
                return option
        return next(reversed(options))
