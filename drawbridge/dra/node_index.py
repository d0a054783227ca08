"""Finds the pools that can have slices for a node, by its name and labels."""

from collections.abc import Iterator, Mapping
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from drawbridge.dra.layered_map import LayeredMap
from drawbridge.dra.nodes import Node

P = TypeVar("P")


class NodeLabel(NamedTuple):
    """A label that a node must have."""

    key: str
    value: str


# A node name, a label, or None for pools that any node can use.
IndexKey: TypeAlias = str | NodeLabel | None
_NONE: Final[tuple[()]] = ()


class NodeIndex(msgspec.Struct, Generic[P], frozen=True, eq=False):
    """Pools by index key. `label_keys` counts the labels of the index by their keys."""

    pools: LayeredMap[IndexKey, tuple[P, ...]] = LayeredMap(_NONE)
    label_keys: Mapping[str, int] = {}

    def find(self, node: Node) -> Iterator[P]:
        """Return the pools of a node once each; they can include pools of other nodes."""
        keys: list[IndexKey] = [None, node.name]
        keys += [NodeLabel(key, node.labels[key]) for key in self.label_keys if key in node.labels]
        return iter(dict.fromkeys(pool for key in keys for pool in self.pools.value(key)))

    def updated(
        self,
        removed: Mapping[P, frozenset[IndexKey]],
        added: Mapping[P, frozenset[IndexKey]],
    ) -> "NodeIndex[P]":
        """Return the index without some keys of pools, and with others."""
        entries: dict[IndexKey, dict[P, None]] = {}
        for pool, keys in removed.items():
            for key in keys:
                self._entry(entries, key).pop(pool, None)
        for pool, keys in added.items():
            for key in keys:
                self._entry(entries, key)[pool] = None
        counts = dict(self.label_keys)
        for key, pools in entries.items():
            if isinstance(key, NodeLabel):
                change = bool(pools) - (key in self.pools)
                counts[key.key] = counts.get(key.key, 0) + change
        return NodeIndex(
            self.pools.updated({key: tuple(pools) or _NONE for key, pools in entries.items()}),
            {key: count for key, count in counts.items() if count},
        )

    def _entry(self, entries: dict[IndexKey, dict[P, None]], key: IndexKey) -> dict[P, None]:
        if key not in entries:
            entries[key] = dict.fromkeys(self.pools.value(key))
        return entries[key]
