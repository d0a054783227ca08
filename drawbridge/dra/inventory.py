"""The inventory of a cluster: all ResourceSlices, and the pools that each node can use.

`pools_for` returns the pools that the scheduler considers for a node: the slices of the newest
generation that are available on the node, and whether each pool is complete and valid. A changed
slice or taint rule makes a new inventory, which shares the other pools with the previous one. The
inventory does not contain allocations.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

import msgspec

from drawbridge.dra.device import CounterSet, Device
from drawbridge.dra.gates import DEFAULTS, Gates
from drawbridge.dra.generations import current_parts, is_complete
from drawbridge.dra.layered_map import LayeredMap
from drawbridge.dra.nodes import Node, NodeSelectorError, selects_node
from drawbridge.dra.slice_nodes import NodeIndex, PoolNodes, find_pool_nodes
from drawbridge.dra.slices import Slice
from drawbridge.dra.taints import DeviceTaintRule, may_apply, with_taints


class PoolID(NamedTuple):
    """The identity of a pool. Sorts by driver, then by name, as in Kubernetes."""

    driver: str
    name: str


class Pool(msgspec.Struct, frozen=True, eq=False):
    """One pool, as available on a node.

    An incomplete or invalid pool has no slices, because none of its devices can be allocated.
    `slices` are the slices with devices for the node, by name. `other_slices` are the slices for
    other nodes, whose devices consume the same counters. `binds` tells whether a device for the
    node has binding conditions.
    """

    id: PoolID
    generation: int
    incomplete: bool = False
    invalid: str = ""
    slices: tuple[Slice, ...] = ()
    other_slices: tuple[Slice, ...] = ()
    counter_sets: Mapping[str, CounterSet] = {}
    binds: bool = False

    @property
    def usable(self) -> bool:
        """Whether devices of the pool can be allocated."""
        return not self.incomplete and not self.invalid

    def devices(self) -> Iterator[tuple[Slice, Device]]:
        """Return the devices with their slices, in the order that the scheduler tries them."""
        return ((each, device) for each in self.slices for device in each.devices)


# Positions of slices in their pool, ascending.
_Members: TypeAlias = tuple[int, ...]


class IndexedPool(msgspec.Struct, frozen=True, eq=False, dict=True):
    """All slices of one pool, of every generation, by name; compared by identity.

    `slices` have the taints of DeviceTaintRules; `untainted` are the same slices without them.
    """

    id: PoolID
    untainted: tuple[Slice, ...]
    slices: tuple[Slice, ...]
    nodes: PoolNodes

    @cached_property
    def published(self) -> "PublishedPool | None":
        """The devices that its slices publish, read once; None while it is incomplete."""
        return read_published_pool(self.id, self.slices)

    def members_for(self, node: Node) -> _Members:
        """Return the slices of the newest generation for a node; raises NodeSelectorError."""
        members = self.nodes.slices_for(node)
        if not members:
            return members
        newest = max([self.slices[i].generation for i in members])
        return tuple([i for i in members if self.slices[i].generation == newest])


_NO_POOL = IndexedPool(PoolID("", ""), (), (), PoolNodes({}, (), ()))
_NO_NODE = Node("")


class _EvaluatedPool(NamedTuple):
    """The pools made of one indexed pool, by the slices that count on a node."""

    published: IndexedPool
    pools: dict[_Members, Pool | None]


class PoolCache:
    """Caches the pools of an inventory and of inventories derived from it.

    With a cache, equal pools are identical objects as long as no slice of the pool changes.
    """

    def __init__(self) -> None:
        self._evaluated: dict[PoolID, _EvaluatedPool] = {}
        self._alike: tuple[object, tuple[Pool, ...]] = (None, ())

    def pool(self, published: IndexedPool, members: _Members, gates: Gates) -> Pool | None:
        """Return the pool of these slices; None if it has a newer generation."""
        cached = self._evaluated.get(published.id)
        if cached is None or cached.published is not published:
            cached = self._evaluated[published.id] = _EvaluatedPool(published, {})
        if members not in cached.pools:
            cached.pools[members] = _evaluate(published, members, gates)
        return cached.pools[members]

    def alike(self, inventory: "Inventory") -> tuple[Pool, ...]:
        """Return the pools that are the same for all nodes, in the scheduler's order."""
        grouped, pools = self._alike
        if grouped is not inventory.alike:
            nonempty = (
                self.pool(pool_slices, pool_slices.members_for(_NO_NODE), inventory.gates)
                for pool_slices in inventory.alike.values()
            )
            pools = _ordered(pool for pool in nonempty if pool is not None)
            self._alike = (inventory.alike, pools)
        return pools

    def drop(self, pool: PoolID) -> tuple[Pool, ...]:
        """Drop what is cached for a pool, and return it."""
        cached = self._evaluated.pop(pool, None)
        return tuple([each for each in cached.pools.values() if each]) if cached else ()


class Inventory(msgspec.Struct, frozen=True, eq=False, dict=True):
    """All slices of a cluster, indexed. Use `build_inventory` to create one.

    `alike` are the pools that are the same for all nodes; `index` finds the others.
    """

    gates: Gates
    taint_rules: tuple[DeviceTaintRule, ...] = ()
    pools: LayeredMap[PoolID, IndexedPool] = LayeredMap(_NO_POOL)
    alike: Mapping[PoolID, IndexedPool] = {}
    index: NodeIndex[PoolID] = NodeIndex()

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
        """All slices, by name."""
        slices = [each for pool in self.pools.values() for each in pool.slices]
        return tuple(sorted(slices, key=lambda each: (each.name, each.driver, each.pool)))

    def published_slices(self, pool: PoolID) -> tuple[Slice, ...]:
        """Return all slices of a pool, of every generation, by name."""
        return self.pools.value(pool).slices

    def pools_for(self, node: Node, cache: PoolCache | None = None) -> tuple[Pool, ...]:
        """Return the pools that `node` can use, in the order that the scheduler tries them.

        Raises NodeSelectorError if the scheduler cannot parse a node selector.
        """
        cache = cache or PoolCache()
        alike, own = cache.alike(self), []
        errors: list[NodeSelectorError] = []
        for published in self._pools_of_some_nodes(node):
            try:
                members = published.members_for(node)
            except NodeSelectorError as error:
                errors.append(error)
                continue
            pool = cache.pool(published, members, self.gates) if members else None
            if pool is not None:
                own.append(pool)
        if errors:
            raise min(errors, key=str)
        return _ordered([*alike, *own]) if own else alike

    def with_slices(self, removed: Iterable[Slice], added: Iterable[Slice]) -> "Inventory":
        """Return the inventory without some slices, by their names, and with others."""
        changed: dict[PoolID, dict[str, Slice]] = {}

        def slices_of_pool(published: Slice) -> dict[str, Slice]:
            pool = PoolID(published.driver, published.pool)
            if pool not in changed:
                earlier = self.pools.value(pool).untainted
                changed[pool] = {each.name: each for each in earlier}
            return changed[pool]

        for resource_slice in removed:
            slices_of_pool(resource_slice).pop(resource_slice.name, None)
        for resource_slice in added:
            slices_of_pool(resource_slice)[resource_slice.name] = resource_slice
        return _with_pools(
            self,
            {
                pool: _index_pool(self, pool, tuple([slices[name] for name in sorted(slices)]))
                for pool, slices in changed.items()
            },
        )

    def with_taint_rules(self, rules: Iterable[DeviceTaintRule]) -> "Inventory":
        """Return the inventory with these rules instead of its own."""
        if not self.gates.device_taint_rules:
            return self
        ordered = tuple(sorted(rules, key=lambda rule: rule.name))
        changed = [rule for rule in ordered if rule not in self.taint_rules]
        changed += [rule for rule in self.taint_rules if rule not in ordered]
        result = msgspec.structs.replace(self, taint_rules=ordered)
        concerned = [
            pool
            for pool in (self.pools if changed else ())
            if any(may_apply(rule, pool.driver, pool.name) for rule in changed)
        ]
        published = {
            pool: _index_pool(result, pool, self.pools[pool].untainted) for pool in concerned
        }
        # Slices whose taints do not change are the same objects.
        tainted = {
            pool: after
            for pool, after in published.items()
            if after.slices != self.pools[pool].slices
        }
        return _with_pools(result, tainted)

    def _pools_of_some_nodes(self, node: Node) -> Iterator[IndexedPool]:
        """Return the pools that can have slices for a node, without those for all nodes."""
        if node.name:
            return (self.pools[pool] for pool in self.index.find(node))
        # A node without a name matches the fields of every node selector.
        return (self.pools[pool] for pool in self.pools if pool not in self.alike)


def group_by_pool(slices: Iterable[Slice]) -> dict[PoolID, list[Slice]]:
    """Return the slices of each pool, by name."""
    pools: dict[PoolID, list[Slice]] = {}
    for slice_ in sorted(slices, key=lambda each: each.name):
        pools.setdefault(PoolID(slice_.driver, slice_.pool), []).append(slice_)
    return pools


def build_inventory(
    slices: Iterable[Slice],
    taint_rules: Iterable[DeviceTaintRule] = (),
    gates: Gates = DEFAULTS,
) -> Inventory:
    """Index slices. Adds the taints of the rules to devices if the feature gate is enabled."""
    rules = sorted(taint_rules, key=lambda rule: rule.name) if gates.device_taint_rules else ()
    empty = Inventory(gates, tuple(rules))
    return _with_pools(
        empty,
        {
            pool: _index_pool(empty, pool, tuple(members))
            for pool, members in group_by_pool(slices).items()
        },
    )


def _with_pools(inventory: Inventory, changes: Mapping[PoolID, IndexedPool]) -> Inventory:
    """Return the inventory with changed pools; `_NO_POOL` removes one."""
    before = {pool: inventory.pools.value(pool).nodes for pool in changes}
    after = {pool: each.nodes for pool, each in changes.items()}
    alike = inventory.alike
    if any(each.all_alike for each in (*before.values(), *after.values())):
        others = {pool: each for pool, each in alike.items() if pool not in changes}
        alike = others | {pool: changes[pool] for pool in changes if after[pool].all_alike}
    removed = {pool: each.index_keys() for pool, each in before.items()}
    added = {pool: each.index_keys() for pool, each in after.items()}
    return msgspec.structs.replace(
        inventory,
        pools=inventory.pools.updated(changes),
        alike=alike,
        index=inventory.index if removed == added else inventory.index.updated(removed, added),
    )


def _index_pool(inventory: Inventory, pool: PoolID, slices: tuple[Slice, ...]) -> IndexedPool:
    """Index the slices of a pool, which are sorted by name."""
    if not slices:
        return _NO_POOL
    rules = [rule for rule in inventory.taint_rules if may_apply(rule, pool.driver, pool.name)]
    tainted = _taint(slices, rules, inventory.published_slices(pool)) if rules else slices
    ignored = [_ignored(each, inventory.gates) for each in slices]
    return IndexedPool(pool, slices, tainted, find_pool_nodes(slices, ignored))


def _taint(
    slices: Iterable[Slice], rules: Sequence[DeviceTaintRule], before: Iterable[Slice]
) -> tuple[Slice, ...]:
    """Add taints to slices. A slice that equals the one before stays the same object."""
    tainted_before = {each.name: each for each in before}
    tainted = []
    for slice_ in slices:
        after = msgspec.structs.replace(slice_, devices=with_taints(slice_.devices, rules))
        same = tainted_before.get(slice_.name)
        tainted.append(same if same is not None and same == after else after)
    return tuple(tainted)


def is_device_for_node(resource_slice: Slice, device: Device, node: Node) -> bool:
    """Tell whether a device is available on `node`, given that its slice is.

    Raises NodeSelectorError if the node selector of the device applies and cannot be parsed.
    """
    if not resource_slice.per_device_node_selection:
        return True
    return selects_node(
        node,
        name=device.node_name,
        everywhere=device.all_nodes,
        selector=device.node_selector,
    )


def _evaluate(published: IndexedPool, members: _Members, gates: Gates) -> Pool | None:
    """Evaluate a pool by the slices for a node. Return None if a newer generation exists."""
    pool, relevant = published.id, tuple([published.slices[i] for i in members])
    # The scheduler uses the count of a random slice. Drawbridge uses the first slice by name.
    count, generation = relevant[0].slice_count, relevant[0].generation
    if len(relevant) == count:
        return _build_pool(pool, relevant, (), gates)
    if any(each.generation > generation for each in published.slices):
        return None
    current = tuple(each for each in published.slices if each.generation == generation)
    if gates.ignores_grouped_slices:
        current = tuple(each for each in current if not _grouped(each))
    if len(current) != count:
        return Pool(pool, generation, incomplete=True)
    names = {each.name for each in relevant}
    others = tuple(each for each in current if each.name not in names)
    return _build_pool(pool, relevant, others, gates)


def _build_pool(
    pool: PoolID, relevant: tuple[Slice, ...], others: tuple[Slice, ...], gates: Gates
) -> Pool:
    generation = relevant[0].generation
    if not gates.partitionable_devices:
        if invalid := _repeated_device(relevant):
            return Pool(pool, generation, invalid=invalid)
        return Pool(pool, generation, slices=relevant, binds=_binds(relevant))
    holding, other_slices = _with_devices(relevant, gates), _with_devices(others, gates)
    published = [s for each in (*relevant, *others) for s in each.shared_counters]
    sets = {each.name: each for each in published}
    invalid = (
        _repeated_device(holding)
        or _repeated("counter set", (each.name for each in published))
        or _unknown_counter(holding + other_slices, sets)
    )
    if invalid:
        return Pool(pool, generation, invalid=invalid)
    return Pool(
        pool,
        generation,
        slices=holding,
        other_slices=other_slices,
        counter_sets=sets,
        binds=_binds(holding),
    )


def _with_devices(slices: tuple[Slice, ...], gates: Gates) -> tuple[Slice, ...]:
    if not gates.counters_apart:
        return slices
    return tuple([each for each in slices if not each.shared_counters])


def _binds(slices: Iterable[Slice]) -> bool:
    return any(device.binding_conditions for each in slices for device in each.devices)


def _ignored(resource_slice: Slice, gates: Gates) -> bool:
    """Tell whether the scheduler ignores a slice because a feature gate is disabled."""
    if not gates.partitionable_devices and (
        resource_slice.per_device_node_selection is not None or resource_slice.shared_counters
    ):
        return True
    return gates.ignores_grouped_slices and _grouped(resource_slice)


def _grouped(published: Slice) -> bool:
    return any(
        use.compatibility_groups for device in published.devices for use in device.consumes_counters
    )


def _ordered(pools: Iterable[Pool]) -> tuple[Pool, ...]:
    """Sort pools by driver and name. Pools with binding conditions come last."""
    return tuple(sorted(pools, key=lambda pool: (pool.binds, pool.id)))


def _repeated(what: str, names: Iterable[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return f"{what} {name} appears twice"
        seen.add(name)
    return ""


def _repeated_device(slices: Iterable[Slice]) -> str:
    return _repeated("device", (device.name for each in slices for device in each.devices))


def _unknown_counter(slices: Iterable[Slice], sets: Mapping[str, CounterSet]) -> str:
    for slice_ in slices:
        for device in slice_.devices:
            for use in device.consumes_counters:
                counter_set = sets.get(use.counter_set)
                if counter_set is None:
                    return f"device {device.name} uses unknown counter set {use.counter_set}"
                for counter in use.counters:
                    if counter not in counter_set.counters:
                        where = f"counter {counter} of counter set {use.counter_set}"
                        return f"device {device.name} uses unknown {where}"
    return ""


class PublishedPool(msgspec.Struct, frozen=True, eq=False):
    """The devices and counter sets of a pool; the first one with a name counts."""

    generation: int
    slices: tuple[Slice, ...]
    devices: Mapping[str, Device]
    counter_sets: Mapping[str, CounterSet]


def find_published_pool(inventory: Inventory, pool: PoolID) -> PublishedPool | None:
    """Return a pool; None while it is incomplete."""
    return inventory.pools.value(pool).published


def read_published_pool(pool: PoolID, slices: Iterable[Slice]) -> PublishedPool | None:
    """Return a pool from all its slices of every generation; None while it is incomplete.

    If its slices do not make one pool, they come in the order of `_precedence`.
    """
    parts = sorted(
        current_parts(sorted(slices, key=lambda each: each.name)),
        key=lambda part: _precedence(pool, part[0]),
    )
    if not parts or not is_complete(parts[0]):
        return None
    generation = parts[0][0].generation
    current = tuple([each for part in parts if is_complete(part) for each in part])
    devices: dict[str, Device] = {}
    sets: dict[str, CounterSet] = {}
    for resource_slice in current:
        for device in resource_slice.devices:
            devices.setdefault(device.name, device)
        for counter_set in resource_slice.shared_counters:
            sets.setdefault(counter_set.name, counter_set)
    return PublishedPool(generation, current, devices, sets)


def find_published_device(
    pool: PoolID, slices: Iterable[Slice], name: str
) -> tuple[Slice, Device] | None:
    """Return a device and its slice, of all slices of a pool of every generation.

    It is also found while the pool is incomplete: it can be in use meanwhile.
    """
    for resource_slice in sorted(slices, key=lambda each: _precedence(pool, each)):
        for device in resource_slice.devices:
            if device.name == name:
                return resource_slice, device
    return None


def _precedence(pool: PoolID, resource_slice: Slice) -> tuple[bool, bool, int]:
    """Return the place of a slice in its pool: the newest generation first, by who wrote it.

    The slices for the node with the name of the pool come first, then those that name no node. The
    others may be forged, and add only devices that these lack.
    """
    node = resource_slice.node_name
    return node != pool.name, bool(node), -resource_slice.generation
