"""Limits how often keys, such as users and addresses, may do something: token buckets.

Reads no clock. The number of keys is bounded; the key that was used least recently starts afresh.
"""

from collections.abc import Hashable
from typing import NamedTuple

from drawbridge.bounded_cache import BoundedCache

MAX_KEYS = 4096


class Rate(NamedTuple):
    """How much is allowed in a second, and how much at once."""

    per_second: float
    burst: float


class KeyedRates:
    """The use by keys."""

    def __init__(self, rate: Rate, max_keys: int = MAX_KEYS) -> None:
        self._rate = rate
        # What is left, at which time.
        self._left: BoundedCache[Hashable, tuple[float, float]] = BoundedCache(max_keys)

    def take(self, key: Hashable, now: float, cost: float = 1) -> float:
        """Use some of what a key has left; return the seconds to wait, and use nothing, or 0."""
        per_second, burst = self._rate
        left, at = self._left.get(key) or (burst, now)
        left = min(burst, left + (now - at) * per_second)
        is_allowed = left >= min(cost, burst)
        self._left.put(key, (left - cost if is_allowed else left, now))
        return 0.0 if is_allowed else (min(cost, burst) - left) / per_second

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._left)
