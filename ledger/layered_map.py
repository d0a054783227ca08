"""An immutable mapping with cheap updates: a small change copies only a few entries.

A lookup reads the recent entries first, then the older ones. Both are merged when the recent
entries grow to about the square root of the older ones.
"""

from collections.abc import Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

MIN_MERGE_SIZE = 16


class LayeredMap(Mapping[K, V]):
    """Entries are set and never removed; the value `empty` marks an absent entry."""

    __slots__ = ("_empty", "_old", "_recent")

    def __init__(
        self, empty: V, old: Mapping[K, V] | None = None, recent: Mapping[K, V] | None = None
    ) -> None:
        self._empty = empty
        self._old: Mapping[K, V] = old or {}
        self._recent: Mapping[K, V] = recent or {}

    def __getitem__(self, key: K) -> V:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    # Called for every pool of every node, so it must not raise an exception internally.
    def get(self, key: K, default: V | None = None) -> V | None:  # type: ignore[override]
        """Return the value of a key, or `default`."""
        value = self._recent.get(key)
        if value is None:
            value = self._old.get(key, self._empty)
        return default if value is self._empty else value

    def __iter__(self) -> Iterator[K]:
        return (key for key in {**self._old, **self._recent} if key in self)

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[arg-type]  # accepts any key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def updated(self, changes: Mapping[K, V]) -> "LayeredMap[K, V]":
        """Return a mapping with changed values; this one does not change."""
        recent = {**self._recent, **changes}
        if len(recent) <= MIN_MERGE_SIZE or len(recent) ** 2 <= len(self._old):
            return LayeredMap(self._empty, self._old, recent)
        merged = {**self._old, **recent}
        for key, value in recent.items():
            if value is self._empty:
                del merged[key]
        return LayeredMap(self._empty, merged)
