"""Keys of pods by node or by kind: copies of a cluster share them until one changes them."""

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class SharedKeys(Generic[K]):
    """Keys in their order, by something that is alike."""

    def __init__(self) -> None:
        self._keys: dict[K, dict[int, None]] = {}
        self._mine = set[K]()  # what no copy has

    def copy(self) -> "SharedKeys[K]":
        """Return a copy that changes alone."""
        other = SharedKeys[K]()
        other._keys = dict(self._keys)
        self._mine = set()
        return other

    def get(self, alike: K) -> Collection[int]:
        """Return the keys."""
        return self._keys.get(alike, ())

    def is_mine(self, alike: K) -> bool:
        """Whether no copy has these keys any more."""
        return alike in self._mine

    def change(self, alike: K) -> dict[int, None]:
        """Return the keys, to change them."""
        if alike not in self._mine:
            self._mine.add(alike)
            self._keys[alike] = dict(self._keys.get(alike, ()))
        return self._keys[alike]
