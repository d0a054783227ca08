"""Who has the next turn: whose turns took least time until now.

Who comes anew counts as the one that had the last turn, and before others that do. So it waits for
nobody who has had a turn, and gains no more than one by staying away. Where all turns take the same
time, they go round.
"""

from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

from drawbridge.bounded_cache import BoundedCache

MAX_NAMES: Final = 4096
K = TypeVar("K", bound=Hashable)


class TurnTimes(Generic[K]):
    """What the turns of each name took, together. One that was not used for long is forgotten."""

    def __init__(self) -> None:
        # What the turns of a name took, from a beginning that is the same for all.
        self._taken: BoundedCache[K, float] = BoundedCache(MAX_NAMES)
        self._least = 0.0

    def choose(self, names: Iterable[K]) -> K:
        """Return who has the next turn, the first one of several."""
        name = min(names, key=self.taken)
        self.begin(name)
        return name

    def begin(self, name: K) -> None:
        """Give the next turn to a name, of which those that wait have not taken less."""
        self._least = max(self._least, self.taken(name))

    def note(self, name: K, seconds: float) -> None:
        """Note how long a turn took."""
        self._taken.put(name, max(self._least, self.taken(name)) + seconds)

    def taken(self, name: K) -> float:
        """Return what the turns of a name took: of those that wait, least has the next one."""
        return self._taken.get(name) or 0.0
