"""Exponential back-off with jitter."""

import random
from collections.abc import Callable

FIRST_SECONDS = 0.5
MAX_SECONDS = 30.0


class Backoff:
    """Pauses that double up to a maximum; `reset` starts again at the first pause."""

    def __init__(
        self,
        first: float = FIRST_SECONDS,
        maximum: float = MAX_SECONDS,
        *,
        random_fraction: Callable[[], float] = random.random,
    ) -> None:
        self._first = first
        self._maximum = maximum
        self._random_fraction = random_fraction
        self._next = first

    def pause(self, at_least: float | None = None) -> float:
        """Return the next pause; `at_least` is the Retry-After of the server, if it sent one."""
        # All replicas lose their watches at the same time. Without jitter they would reconnect at
        # the same time too, above all if the server sends all of them the same Retry-After.
        fraction = self._random_fraction()
        pause = self._next * (0.5 + fraction)
        self._next = min(self._next * 2, self._maximum)
        return max(pause, (at_least or 0.0) * (1 + fraction / 4))

    def reset(self) -> None:
        """Start again at the first pause."""
        self._next = self._first
