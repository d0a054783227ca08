"""Values by key of several namespaces; beyond a limit, the namespace with most loses its oldest.

A key begins with its namespace and a slash. So a tenant that fills a cache pushes out values of its
own. Reads no clock.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class FairCache(Generic[V]):
    """A cache that is bounded by the sum of the costs of its values.

    Not thread-safe.
    """

    def __init__(self, max_cost: int) -> None:
        self._max_cost = max_cost
        self._cost = 0
        self._namespaces: dict[str, OrderedDict[str, tuple[V, int]]] = {}
        self._costs: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._namespaces.values()))

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys, those of a namespace together."""
        return (key for of_namespace in self._namespaces.values() for key in of_namespace)

    def __contains__(self, key: str) -> bool:
        """Whether a key has a value. This does not use it."""
        return key in self._namespaces.get(_namespace_of(key), ())

    def get(self, key: str) -> V | None:
        """Return the value of a key."""
        entries = self._namespaces.get(_namespace_of(key))
        if entries is None or key not in entries:
            return None
        entries.move_to_end(key)
        return entries[key][0]

    def put(self, key: str, value: V, *, cost: int = 1) -> Collection[str]:
        """Set the value of a key; return the least recently used keys of who has most, now gone."""
        self.pop(key)
        namespace = _namespace_of(key)
        self._namespaces.setdefault(namespace, OrderedDict())[key] = (value, cost)
        self._costs[namespace] = self._costs.get(namespace, 0) + cost
        self._cost += cost
        dropped = []
        while self._cost > self._max_cost:
            most = max(self._costs, key=self._costs.__getitem__)
            dropped.append(next(iter(self._namespaces[most])))
            self.pop(dropped[-1])
        return dropped

    def pop(self, key: str) -> V | None:
        """Remove a key, and return its value."""
        namespace = _namespace_of(key)
        entries = self._namespaces.get(namespace, OrderedDict())
        if key not in entries:
            return None
        value, cost = entries.pop(key)
        self._cost -= cost
        self._costs[namespace] -= cost
        if not entries:
            del self._namespaces[namespace], self._costs[namespace]
        return value


def _namespace_of(key: str) -> str:
    return key.partition("/")[0]
