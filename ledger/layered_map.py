"""A mapping that never changes: a small change gives a new one and copies almost nothing.

Lookups go through what changed lately to what is older; the two are merged when the former has
grown to about the root of the latter. Knows nothing of what is in it.
"""

from collections.abc import Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

FEWEST = 16


class LayeredMap(Mapping[K, V]):
    """Entries are set, never taken out; `empty` is what an entry that says nothing holds."""

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

    # Asked for every pool of every node, so that it must not go through an exception.
    def get(self, key: K, default: V | None = None) -> V | None:  # type: ignore[override]
        """Give the value of a key, `default` where there is none."""
        value = self._recent.get(key)
        if value is None:
            value = self._old.get(key, self._empty)
        return default if value is self._empty else value

    def __iter__(self) -> Iterator[K]:
        return (key for key in {**self._old, **self._recent} if key in self)

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[arg-type]  # any key may be asked for

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def changed(self, changes: Mapping[K, V]) -> "LayeredMap[K, V]":
        """Give the mapping with other values; this one stays what it is."""
        recent = {**self._recent, **changes}
        if len(recent) <= FEWEST or len(recent) ** 2 <= len(self._old):
            return LayeredMap(self._empty, self._old, recent)
        merged = {**self._old, **recent}
        for key, value in recent.items():
            if value is self._empty:
                del merged[key]
        return LayeredMap(self._empty, merged)
