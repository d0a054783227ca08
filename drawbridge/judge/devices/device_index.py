"""Groups nodes that no claim can tell apart by the attributes that it reads.

A fleet has thousands of nodes but few kinds of them. The index holds one number for the devices of
each slice and each attribute, so that a judgement compares numbers instead of devices, and solves
for one node of each group. Two nodes are in one group if their devices are equal in everything that
the solver reads without a claim, in the attributes that the claim's expressions read, and in the
pattern of equal values of the attributes that its constraints compare.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.attributes import find_attribute, split_name
from drawbridge.dra.device import Attribute, Device
from drawbridge.dra.inventory import Inventory, Pool, PoolCache, is_device_for_node
from drawbridge.dra.nodes import Node, NodeSelectorError
from drawbridge.dra.quantity import encode_quantity
from drawbridge.dra.slices import Slice
from drawbridge.facts.device_counts import attribute_type
from drawbridge.names import COMPATIBILITY_ANNOTATION
from drawbridge.solver.constraints import typed_values
from drawbridge.solver.node_view import OPTIONAL_OPERATIONS

T = TypeVar("T")
MAX_GROUPINGS = 256
MAX_ANSWERS = 1024
MAX_TERMS = 32
MAX_NUMBERS = 2_000_000
# Read like an attribute, by judgements that taints decide. Full names of attributes have a slash.
TAINTS = "taints"
_ABSENT = 0
# Whether an attribute is a list, and its typed values in order.
_Values: TypeAlias = tuple[bool, tuple[Hashable, ...]]


class DeviceReads(NamedTuple):
    """What a judgement reads of devices: attributes by full name, compared or by value."""

    values: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()


class _Row(NamedTuple):
    """The numbers of one slice: of its devices without attributes, and of each attribute.

    `capacities` are the full names of the capacities.
    """

    published: Slice
    base: int
    columns: Mapping[str, int]
    capacities: frozenset[str]


class SliceNumbers:
    """Numbers the contents of slices. Keeps the numbers of slices that stay, and drops the rest."""

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}
        self._numbers: dict[Hashable, int] = {}

    def rows(self, slices: Iterable[Slice]) -> list[_Row]:
        """Return the rows of slices."""
        if len(self._numbers) > MAX_NUMBERS:
            self._rows, self._numbers = {}, {}
        numbered = self._rows
        # Keyed by id(); the row holds the slice, so that its id is not reused.
        rows = [numbered.get(id(each)) or self._number_slice(each) for each in slices]
        self._rows = {id(row.published): row for row in rows}
        return rows

    def _number_slice(self, slice_: Slice) -> _Row:
        columns: dict[str, list[Attribute | None]] = {}
        for position, device in enumerate(slice_.devices):
            for name, attribute in device.attributes.items():
                full = "/".join(split_name(name, slice_.driver))
                column = columns.get(full)
                if column is None:
                    column = columns[full] = [None] * len(slice_.devices)
                # Of two names with one meaning, the full name counts.
                if column[position] is None or "/" in name:
                    column[position] = attribute
        numbered = {name: self._number((name, *column)) for name, column in columns.items()}
        if any(device.taints for device in slice_.devices):
            numbered[TAINTS] = self._number((TAINTS, *(d.taints for d in slice_.devices)))
        capacities = {name for device in slice_.devices for name in device.capacity}
        full_names = frozenset("/".join(split_name(name, slice_.driver)) for name in capacities)
        return _Row(slice_, self._number(_base_key(slice_)), numbered, full_names)

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers) + 1)


def _base_key(slice_: Slice) -> bytes:
    """Return a key of what the solver reads of the devices besides their attributes."""
    annotation = slice_.annotations.get(COMPATIBILITY_ANNOTATION, "")
    devices = [
        (
            device.capacity,
            device.consumes_counters,
            device.allow_multiple_allocations,
            bool(device.binding_conditions),
            device.compatible_only_with,
            # Two names with one meaning are told apart.
            [name for name in device.attributes if "/" in name and _is_twice(name, device, slice_)],
        )
        for device in slice_.devices
    ]
    return _ENCODER.encode((slice_.driver, annotation, slice_.skip_node_operations, devices))


def _is_twice(name: str, device: Device, published: Slice) -> bool:
    domain, _, identifier = name.partition("/")
    return domain == published.driver and identifier in device.attributes


_ENCODER = msgspec.msgpack.Encoder(enc_hook=encode_quantity)


class _AlikeNodes(NamedTuple):
    """Nodes with the same pools in everything but the contents of their own slices.

    `members` holds, for each node, the positions of its own slices in the inventory.
    """

    nodes: list[Node]
    members: list[tuple[int, ...]]
    sharing: bool


class DeviceIndex:
    """The index of one inventory and its nodes."""

    def __init__(self, inventory: Inventory, nodes: Iterable[Node], numbers: SliceNumbers) -> None:
        self.inventory = inventory
        self.nodes = _with_named_nodes(inventory, nodes)
        self._rows = numbers.rows(inventory.slices)
        self.devices = sum(len(each.devices) for each in inventory.slices)
        self._positions = {id(each): i for i, each in enumerate(inventory.slices)}
        self.attributes = frozenset(name for row in self._rows for name in row.columns)
        self.capacities = frozenset(chain.from_iterable({row.capacities for row in self._rows}))
        # One message for each node whose pools cannot be determined.
        self.unreadable: list[str] = []
        self.pools: dict[str, tuple[Pool, ...]] = self._find_pools()
        self._alike = self._group_nodes()
        self._patterns: dict[str, list[list[Hashable]]] = {}
        self._columns: dict[str, list[int]] = {}
        self._accepting: BoundedCache[str, set[str]] = BoundedCache(MAX_TERMS)
        self._groupings: BoundedCache[DeviceReads, tuple[Node, ...]] = BoundedCache(MAX_GROUPINGS)
        self._answers: BoundedCache[Hashable, tuple[object]] = BoundedCache(MAX_ANSWERS)

    def representatives(self, reads: DeviceReads) -> tuple[Node, ...]:
        """Return one node of each group of nodes that differ in what is read."""
        # Attributes that no device has do not tell nodes apart.
        reads = DeviceReads(reads.values & self.attributes, reads.patterns & self.attributes)
        nodes = self._groupings.get(reads)
        if nodes is None:
            nodes = self._group(reads)
            self._groupings.put(reads, nodes)
        return nodes

    def recall(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what was computed for a key before, or compute it, for this index only."""
        answer = self._answers.get(key)
        if answer is None:
            answer = (compute(),)
            self._answers.put(key, answer)
        return answer[0]  # type: ignore[return-value]  # computed for this key

    def usable_slices(self, nodes: Iterable[Node]) -> Iterator[Slice]:
        """Yield the slices of the usable pools of nodes, each once."""
        seen: set[int] = set()
        for node in nodes:
            for pool in self.pools.get(node.name, ()):
                for slice_ in pool.slices if pool.usable else ():
                    if id(slice_) not in seen:
                        seen.add(id(slice_))
                        yield slice_

    def varies(self, name: str, least: int) -> bool:
        """Return whether the slices differ in an attribute in at least so many ways."""
        return len(set(self._column(name))) >= least

    def nodes_with(
        self,
        name: str,
        term: str,
        accepts: Callable[[Attribute | None], bool],
    ) -> set[str]:
        """Return the nodes that may have a device whose value of an attribute a term accepts.

        Nodes with shared devices always may. `term` is the key under which the result is kept.
        """
        # Not recalled with the others: a result can name every node.
        nodes = self._accepting.get(term)
        if nodes is None:
            nodes = self._find_nodes_with(name, accepts)
            self._accepting.put(term, nodes)
        return nodes

    def _find_nodes_with(self, name: str, accepts: Callable[[Attribute | None], bool]) -> set[str]:
        verdicts: dict[int, bool] = {}
        for row in self._rows:
            number = row.columns.get(name, _ABSENT)
            if number not in verdicts or not number:
                verdicts[number] = any(map(accepts, _values(name, row.published)))
        members = [verdicts[row.columns.get(name, _ABSENT)] for row in self._rows]
        return {
            node.name
            for group in self._alike
            for node, own in zip(group.nodes, group.members, strict=True)
            if group.sharing or any(members[i] for i in own)
        }

    def _find_pools(self) -> dict[str, tuple[Pool, ...]]:
        cache, pools = PoolCache(), {}
        for node in self.nodes:
            try:
                pools[node.name] = self.inventory.pools_for(node, cache)
            except NodeSelectorError as error:
                self.unreadable.append(f"{error}")
        return pools

    def _group_nodes(self) -> list[_AlikeNodes]:
        users = Counter(id(pool) for pools in self.pools.values() for pool in pools)
        optional = any(each.skip_node_operations for each in self.inventory.slices)
        groups: dict[Hashable, _AlikeNodes] = {}
        for node in self.nodes:
            pools = self.pools.get(node.name, ())
            own = [pool for pool in pools if users[id(pool)] == 1]
            declared = optional and OPTIONAL_OPERATIONS in node.declared_features
            key = (declared, tuple([_pool_key(p, node, shared=users[id(p)] > 1) for p in pools]))
            group = groups.get(key)
            if group is None:
                group = groups[key] = _AlikeNodes([], [], len(own) < len(pools))
            group.nodes.append(node)
            positions = self._positions
            group.members.append(tuple([positions[id(s)] for p in own for s in p.slices]))
        return list(groups.values())

    def _group(self, reads: DeviceReads) -> tuple[Node, ...]:
        nodes: list[Node] = []
        with_shared = [group for group in self._alike if group.sharing]
        # The values of shared devices are the same for all nodes, so values must not be renamed.
        exact = reads.values | reads.patterns if with_shared else reads.values
        by_sharing = {False: self._slice_groups(reads.values), True: self._slice_groups(exact)}
        for number, group in enumerate(self._alike):
            slices = by_sharing[group.sharing]
            keys: list[Hashable] = [tuple([slices[i] for i in each]) for each in group.members]
            for name in () if group.sharing else sorted(reads.patterns):
                keys = list(zip(keys, self._patterns_of(name)[number], strict=True))
            # The first node of each key.
            first = dict(zip(reversed(keys), reversed(group.nodes), strict=True))
            nodes += reversed(first.values())
        return tuple(nodes)

    def _slice_groups(self, names: frozenset[str]) -> list[int]:
        """Return a number for each slice, equal for slices that are equal in these attributes."""
        columns = [[row.base for row in self._rows], *(self._column(n) for n in sorted(names))]
        numbers: dict[Hashable, int] = {}
        return [numbers.setdefault(key, len(numbers)) for key in zip(*columns, strict=True)]

    def _column(self, name: str) -> list[int]:
        column = self._columns.get(name)
        if column is None:
            column = [row.columns.get(name, _ABSENT) for row in self._rows]
            self._columns[name] = column
        return column

    def _patterns_of(self, name: str) -> list[list[Hashable]]:
        """Return the pattern of equal values of an attribute on each node, group by group."""
        patterns = self._patterns.get(name)
        if patterns is None:
            slices = self.inventory.slices
            read: dict[Attribute, _Values] = {}
            patterns = self._patterns[name] = [
                [_pattern(name, [slices[i] for i in each], read) for each in group.members]
                for group in self._alike
            ]
        return patterns


def _pool_key(pool: Pool, node: Node, *, shared: bool) -> Hashable:
    """Return a key of what a node sees of a pool, besides the contents of its own slices."""
    own_devices: tuple[bool, ...] = ()
    if any(each.per_device_node_selection for each in pool.slices):
        own_devices = tuple([_is_for_node(each, device, node) for each, device in pool.devices()])
    if shared:
        return (id(pool), own_devices)
    counters = _ENCODER.encode(pool.counter_sets) if pool.counter_sets else b""
    return (pool.id.driver, pool.incomplete, pool.invalid, len(pool.slices), counters, own_devices)


def _is_for_node(published: Slice, device: Device, node: Node) -> bool:
    try:
        return is_device_for_node(published, device, node)
    except NodeSelectorError:
        return False


def _values(name: str, published: Slice) -> Iterator[Attribute | None]:
    """Return the values of an attribute on the devices of a slice; None if it is absent."""
    return (find_attribute(device, published.driver, name) for device in published.devices)


def _pattern(name: str, slices: Sequence[Slice], read: dict[Attribute, _Values]) -> Hashable:
    """Number the values of an attribute on the devices of a node, by their first occurrence.

    `read` holds the values of the attributes of the nodes before.
    """
    numbers: dict[Hashable, int] = {}
    pattern: list[object] = []
    for slice_ in slices:
        for attribute in _values(name, slice_):
            if attribute is None:
                pattern.append(None)
                continue
            listed_values = read.get(attribute)
            if listed_values is None:
                values = tuple(sorted(typed_values(attribute), key=repr))
                listed_values = read[attribute] = (attribute_type(attribute).endswith("s"), values)
            listed, ordered = listed_values
            pattern.append(
                (listed, *[numbers.setdefault(value, len(numbers)) for value in ordered])
            )
    return tuple(pattern)


def _with_named_nodes(inventory: Inventory, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return the nodes, including those that only slices name."""
    by_name = {node.name: node for node in nodes}
    for slice_ in inventory.slices:
        if slice_.node_name and slice_.node_name not in by_name:
            by_name[slice_.node_name] = Node(slice_.node_name)
        if slice_.per_device_node_selection:
            for device in slice_.devices:
                if device.node_name and device.node_name not in by_name:
                    by_name[device.node_name] = Node(device.node_name)
    return tuple(by_name.values())
