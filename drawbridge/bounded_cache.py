"""Values by key, of which the least recently used are dropped beyond a limit.

Every cache that outlives a request is one of these, so that no request decides how much memory the
process takes. Reads no clock: where entries expire, the caller passes the time.
"""

import math
import sys
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# A value that takes such a part of the total cost is not kept, as it would displace most others.
MAX_PART: Final = 8


class BoundedCache(Generic[K, V]):
    """A cache that is bounded by the number of its entries and by the sum of their costs.

    A value is not kept if it costs one `max_part`th of the total or more. Not thread-safe.
    """

    def __init__(
        self, max_entries: int, max_cost: int = sys.maxsize, max_part: int = MAX_PART
    ) -> None:
        self.cost = 0
        self._max_entries = max_entries
        self.max_cost = max_cost
        self._max_part = max_part
        self._entries: OrderedDict[K, tuple[V, int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        """Whether a key has a value. This does not use it."""
        return key in self._entries

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over keys and values, the least recently used first. This does not use them."""
        return ((key, value) for key, (value, _, _) in self._entries.items())

    def values(self) -> Iterator[V]:
        """Iterate over values, the least recently used first. This does not use them."""
        return (value for value, _, _ in self._entries.values())

    def get(self, key: K, now: float = -math.inf) -> V | None:
        """Return the value of a key, unless it has expired."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        value, _, until = entry
        if until <= now:
            self.pop(key)
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V, *, cost: int = 0, until: float = math.inf) -> None:
        """Set the value of a key, and drop the least recently used ones beyond the limits.

        The value expires at `until`.
        """
        self.pop(key)
        if cost >= self.max_cost // self._max_part:
            return
        self._entries[key] = (value, cost, until)
        self.cost += cost
        while len(self._entries) > self._max_entries or self.cost > self.max_cost:
            _, (_, dropped, _) = self._entries.popitem(last=False)
            self.cost -= dropped

    def pop(self, key: K) -> V | None:
        """Remove a key, and return its value."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self.cost -= entry[1]
        return entry[0]

    def clear(self) -> None:
        """Remove all keys."""
        self._entries.clear()
        self.cost = 0
