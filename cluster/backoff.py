"""How long to wait before trying again: longer each time, never in step with others."""

import random
from collections.abc import Callable

FIRST = 0.5
MOST = 30.0


class Backoff:
    """Pauses that double up to a limit; a success begins again at the shortest."""

    def __init__(
        self,
        first: float = FIRST,
        most: float = MOST,
        *,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._first = first
        self._most = most
        self._chance = chance
        self._next = first

    def pause(self, at_least: float | None = None) -> float:
        """Give the next pause; the server's own wish is a lower bound, for it knows its load."""
        # All replicas lose their watches in the same moment: without chance they would come back
        # in the same moment, too; most of all when they are told the same second.
        chance = self._chance()
        pause = self._next * (0.5 + chance)
        self._next = min(self._next * 2, self._most)
        return max(pause, (at_least or 0.0) * (1 + chance / 4))

    def reset(self) -> None:
        """Begin again at the shortest."""
        self._next = self._first
