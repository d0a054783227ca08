"""An index of what is remembered: the members of each key, in the order in which they came."""

from collections.abc import Hashable, Iterable, Iterator, KeysView
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)
_NOBODY: Final[dict[object, None]] = {}


class Index(Generic[K, V]):
    """The members by key; a key without members is none."""

    def __init__(self) -> None:
        self._members: dict[K, dict[V, None]] = {}

    def __iter__(self) -> Iterator[K]:
        return iter(self._members)

    def __contains__(self, key: K) -> bool:
        return key in self._members

    def __len__(self) -> int:
        return len(self._members)

    def get(self, key: K) -> KeysView[V]:
        """Return the members of a key."""
        return self._members.get(key, _NOBODY).keys()  # type: ignore[return-value]  # it is empty

    def move(self, member: V, before: Iterable[K], after: Iterable[K]) -> None:
        """Have a member under other keys than before."""
        keys = dict.fromkeys(after)
        for key in before:
            if key not in keys and (members := self._members.get(key)) is not None:
                members.pop(member, None)
                if not members:
                    del self._members[key]
        for key in keys:
            self._members.setdefault(key, {})[member] = None
