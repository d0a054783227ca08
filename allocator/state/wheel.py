"""The times at which something of the records is due, by kind and key. Reads no clock."""

import sys
from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

K = TypeVar("K")


class Wheel(Generic[K]):
    """The next time of each key, one for each kind."""

    def __init__(self) -> None:
        self._times: Final[dict[tuple[K, str], float]] = {}
        # The earliest entry of each key; a later time replaces it when it comes up.
        self._queued: Final[dict[tuple[K, str], float]] = {}
        self._heaps: Final[dict[K, list[tuple[float, str]]]] = {}

    def set(self, kind: K, key: str, at: float | None) -> None:
        """Set the time of a key, or with None that it has none."""
        if at is None:
            self._times.pop((kind, key), None)
            return
        self._times[kind, key] = at
        queued = self._queued.get((kind, key))
        if queued is None or at < queued:
            self._queued[kind, key] = at
            heappush(self._heaps.setdefault(kind, []), (at, key))

    def get(self, kind: K, key: str) -> float | None:
        """Return the time of a key."""
        return self._times.get((kind, key))

    def next(self, kind: K) -> float | None:
        """Return the first time of a kind."""
        heap = self._heaps.get(kind, [])
        while heap:
            queued, key = heap[0]
            at = self._times.get((kind, key))
            if at == queued:
                return at
            heappop(heap)
            if self._queued.get((kind, key)) == queued:
                del self._queued[kind, key]
                self.set(kind, key, at)
        return None

    def take(self, kind: K, now: float, most: int = sys.maxsize) -> list[str]:
        """Return the first keys of a kind whose time has come, which have none any more."""
        due: list[str] = []
        while len(due) < most and (key := self.take_first(kind, now)) is not None:
            due.append(key)
        return due

    def take_first(self, kind: K, now: float) -> str | None:
        """Return the first key of a kind if its time has come; it has none any more."""
        at = self.next(kind)
        if at is None or at > now:
            return None
        _, key = heappop(self._heaps[kind])
        del self._times[kind, key], self._queued[kind, key]
        return key
