"""An immutable mapping with cheap updates: a small change copies only a few entries.

A lookup reads the recent entries first, then the older ones. Both are merged when the recent
entries grow to about the square root of the older ones.
"""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MIN_MERGE_SIZE = 16


class _Layer(Generic[K, V]):
    """The older entries. `added` are the keys merged into the layer with the token `before`."""

    __slots__ = ("added", "before", "entries", "token")

    def __init__(
        self, entries: Mapping[K, V], before: object = None, added: frozenset[K] = frozenset()
    ) -> None:
        self.entries = entries
        self.before = before
        self.added = added
        self.token = object()


class LayeredMap(Mapping[K, V]):
    """Entries are set and never removed; the value `empty` marks an absent entry."""

    __slots__ = ("_empty", "_old", "_recent")

    def __init__(self, empty: V, entries: Mapping[K, V] | None = None) -> None:
        self._empty = empty
        self._old: _Layer[K, V] = _Layer(entries or {})
        self._recent: Mapping[K, V] = {}

    def __getitem__(self, key: K) -> V:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    # Called for every pool of every node, so neither may raise an exception internally.
    def get(self, key: K, default: V | None = None) -> V | None:  # type: ignore[override]
        """Return the value of a key, or `default`."""
        value = self.value(key)
        return default if value is self._empty else value

    def value(self, key: K) -> V:
        """Return the value of a key; `empty` if it is absent."""
        value = self._recent.get(key)
        return self._old.entries.get(key, self._empty) if value is None else value

    def __iter__(self) -> Iterator[K]:
        return (key for key in {**self._old.entries, **self._recent} if key in self)

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[arg-type]  # accepts any key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def updated(self, changes: Mapping[K, V]) -> "LayeredMap[K, V]":
        """Return a mapping with changed values; this one does not change."""
        recent = {**self._recent, **changes}
        if len(recent) <= MIN_MERGE_SIZE or len(recent) ** 2 <= len(self._old.entries):
            return self._with(self._old, recent)
        merged = {**self._old.entries, **recent}
        for key, value in recent.items():
            if value is self._empty:
                del merged[key]
        if not self._old.entries:
            return self._with(_Layer(merged), {})
        return self._with(_Layer(merged, self._old.token, frozenset(recent)), {})

    def changed_keys(self, before: "LayeredMap[K, V]") -> set[K]:
        """Return the keys with another value object than before.

        The cost depends only on the changes since, unless there are many.
        """
        old, recent = before._old, before._recent  # noqa: SLF001  # of the same class
        keys = {*self._recent, *recent}
        if self._old.before is old.token:
            keys |= self._old.added
        elif self._old is not old:
            keys |= self._old.entries.keys() | old.entries.keys()
        return {key for key in keys if self.value(key) is not before.value(key)}

    def _with(self, old: _Layer[K, V], recent: Mapping[K, V]) -> "LayeredMap[K, V]":
        result: LayeredMap[K, V] = LayeredMap(self._empty)
        result._old, result._recent = old, recent
        return result
