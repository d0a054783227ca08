"""The nodes that the slices of a pool are for, and the index that finds the pools of a node."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from drawbridge.dra.device import NodeSelector, NodeSelectorTerm
from drawbridge.dra.layered_map import LayeredMap
from drawbridge.dra.nodes import Node, NodeSelectorError, matches_selector, selector_problems
from drawbridge.dra.slices import Slice

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


class MalformedSelector(NamedTuple):
    """The errors of a node selector that the scheduler cannot parse."""

    problems: str


# The nodes of a slice or device; None for all nodes.
_Reference: TypeAlias = str | NodeSelector | MalformedSelector | None


class _ConditionalSlice(NamedTuple):
    """A slice whose references must be evaluated for each node."""

    position: int
    name: str
    references: tuple[_Reference, ...]

    def is_for(self, node: Node) -> bool:
        """Tell whether a reference matches the node. Stops at the first match."""
        for reference in self.references:
            if reference is None:
                return True
            if isinstance(reference, str):
                if reference == node.name:
                    return True
            elif isinstance(reference, MalformedSelector):
                raise NodeSelectorError(f"slice {self.name}: {reference.problems}")
            elif matches_selector(reference, node):
                return True
        return False


class PoolNodes(msgspec.Struct, frozen=True, eq=False):
    """The nodes of the slices of one pool. Slices are numbered by their position in the pool."""

    by_name: Mapping[str, tuple[int, ...]]
    everywhere: tuple[int, ...]
    conditional: tuple[_ConditionalSlice, ...]

    @property
    def all_alike(self) -> bool:
        """Whether every node can use the same slices."""
        return bool(self.everywhere) and not self.by_name and not self.conditional

    @property
    def only_named(self) -> bool:
        """Whether the slices are only for nodes that they name."""
        return not self.everywhere and not self.conditional

    def may_concern(self, nodes: Mapping[str, Node]) -> Iterable[str]:
        """Return the names of the nodes that may use a slice."""
        keys = self.index_keys()
        if self.all_alike or None in keys:
            return nodes
        labels = [key for key in keys if isinstance(key, NodeLabel)]
        labelled = (
            name
            for name, node in nodes.items()
            if any(node.labels.get(key) == value for key, value in labels)
        )
        return [*(key for key in keys if isinstance(key, str)), *(labelled if labels else ())]

    def slices_for(self, node: Node) -> tuple[int, ...]:
        """Return the slices for a node, ascending; raises NodeSelectorError."""
        own = self.by_name.get(node.name, ())
        if self.only_named:
            return own
        matching = (each.position for each in self.conditional if each.is_for(node))
        return tuple(sorted({*own, *self.everywhere, *matching}))

    def index_keys(self) -> frozenset[IndexKey]:
        """Return the keys of the pool in an index; none if every node can use the same slices.

        A node that can use a slice has one of the keys.
        """
        if self.all_alike:
            return frozenset()
        keys: set[IndexKey] = {*self.by_name, *([None] if self.everywhere else [])}
        for condition in self.conditional:
            for reference in condition.references:
                if isinstance(reference, NodeSelector):
                    keys.update(_selector_keys(reference))
                else:
                    keys.add(reference if isinstance(reference, str) else None)
        return frozenset(keys)


def find_pool_nodes(slices: Sequence[Slice], ignored: Iterable[bool]) -> PoolNodes:
    """Read which nodes the slices of a pool are for; ignored slices are for none."""
    by_name: dict[str, list[int]] = {}
    everywhere: list[int] = []
    conditional: list[_ConditionalSlice] = []
    for position, (resource_slice, skip) in enumerate(zip(slices, ignored, strict=True)):
        distinct = () if skip else dict.fromkeys(_references(resource_slice))
        references = tuple(_checked(reference) for reference in distinct)
        names = [reference for reference in references if isinstance(reference, str)]
        if len(names) == len(references):
            for name in names:
                by_name.setdefault(name, []).append(position)
        elif references[0] is None:
            everywhere.append(position)
        else:
            conditional.append(_ConditionalSlice(position, resource_slice.name, references))
    of_names = {name: tuple(positions) for name, positions in by_name.items()}
    return PoolNodes(of_names, tuple(everywhere), tuple(conditional))


def _references(resource_slice: Slice) -> Iterator[str | NodeSelector | None]:
    """Yield the nodes of a slice; none if it does not specify any."""
    if resource_slice.node_name:
        yield resource_slice.node_name
    elif resource_slice.all_nodes:
        yield None
    elif resource_slice.node_selector is not None:
        yield resource_slice.node_selector
    elif resource_slice.per_device_node_selection:
        for device in resource_slice.devices:
            if device.node_name:
                yield device.node_name
            elif device.all_nodes:
                yield None
            elif device.node_selector is not None:
                yield device.node_selector


def _checked(reference: str | NodeSelector | None) -> _Reference:
    problems = selector_problems(reference) if isinstance(reference, NodeSelector) else ()
    return MalformedSelector("; ".join(problems)) if problems else reference


def _selector_keys(selector: NodeSelector) -> Iterator[IndexKey]:
    for term in selector.node_selector_terms:
        yield from _term_keys(term)


def _term_keys(term: NodeSelectorTerm) -> Iterable[IndexKey]:
    """Return keys of which every matching node has one."""
    for requirement in term.match_expressions:
        if requirement.operator == "In":
            return [NodeLabel(requirement.key, value) for value in requirement.values]
    for requirement in term.match_fields:
        if requirement.operator == "In" and requirement.key == "metadata.name":
            return requirement.values
    # A term without requirements matches nothing.
    return [None] if term.match_expressions or term.match_fields else []
