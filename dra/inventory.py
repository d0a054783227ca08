"""The inventory of a cluster: all ResourceSlices, and the pools that each node can use.

`pools_for` returns the pools that the scheduler considers for a node: the slices of the newest
generation that are available on the node, and whether each pool is complete and valid. The
inventory does not contain allocations.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from dra.device import CounterSet, Device, NodeSelector
from dra.gates import DEFAULTS, Gates
from dra.nodes import Node, NodeSelectorError, matches_selector, selector_problems, selects_node
from dra.slices import Slice
from dra.taints import DeviceTaintRule, may_apply, with_taints


class PoolID(NamedTuple):
    """The identity of a pool. Sorts by driver, then by name, as in Kubernetes."""

    driver: str
    name: str


class Pool(msgspec.Struct, frozen=True, eq=False):
    """One pool, as available on a node.

    An incomplete or invalid pool has no slices, because none of its devices can be allocated.
    `slices` are the slices with devices for the node, by name. `other_slices` are the slices for
    other nodes, whose devices consume the same counters.
    """

    id: PoolID
    generation: int
    incomplete: bool = False
    invalid: str = ""
    slices: tuple[Slice, ...] = ()
    other_slices: tuple[Slice, ...] = ()
    counter_sets: Mapping[str, CounterSet] = {}

    @property
    def usable(self) -> bool:
        """Whether devices of the pool can be allocated."""
        return not self.incomplete and not self.invalid

    def devices(self) -> Iterator[tuple[Slice, Device]]:
        """Return the devices with their slices, in the order that the scheduler tries them."""
        return ((each, device) for each in self.slices for device in each.devices)


# Indexes of the slices of one pool in `Inventory.slices`, ascending.
_Members: TypeAlias = tuple[int, ...]
# The nodes of a slice or device: a node name, the index of a node selector, or None for all.
_NodeReference: TypeAlias = str | int | None
# Everything that the pools of slices without a node name depend on.
_Signature: TypeAlias = tuple[str, tuple[bool, ...]]


class _Shared(NamedTuple):
    """The pools of slices without a node name, as available on a node."""

    members: Mapping[PoolID, _Members]
    pools: tuple[Pool, ...]


class PoolCache:
    """Caches the pools of one inventory. With a cache, equal pools are identical objects."""

    def __init__(self) -> None:
        self.pools: dict[tuple[PoolID, _Members], Pool | None] = {}
        self.shared: dict[_Signature, _Shared] = {}


class Inventory(msgspec.Struct, frozen=True, eq=False):
    """All slices of a cluster, indexed. Use `build_inventory` to create one."""

    slices: tuple[Slice, ...]
    gates: Gates
    pools: Mapping[PoolID, _Members]
    _of_node: Mapping[str, _Members]
    _references: Mapping[int, tuple[_NodeReference, ...]]
    _selectors: tuple[NodeSelector, ...]
    _malformed: tuple[str, ...]
    _named: frozenset[str]

    def published_slices(self, pool: PoolID) -> tuple[Slice, ...]:
        """Return all slices of a pool, of every generation, by name."""
        return tuple(self.slices[i] for i in self.pools.get(pool, ()))

    def pools_for(self, node: Node, cache: PoolCache | None = None) -> tuple[Pool, ...]:
        """Return the pools that `node` can use, in the order that the scheduler tries them.

        Raises NodeSelectorError if the scheduler cannot parse a node selector.
        """
        cache = cache or PoolCache()
        shared = self._shared(node, cache)
        own = self._newest(self._of_node.get(node.name, ()), shared.members)
        if not own:
            return shared.pools
        pools = [pool for pool in shared.pools if pool.id not in own]
        evaluated = (self._cached_pool(pool, members, cache) for pool, members in own.items())
        return _ordered([*pools, *(pool for pool in evaluated if pool is not None)])

    def _shared(self, node: Node, cache: PoolCache) -> _Shared:
        """Return the pools of slices without a node name; cached per signature of the node."""
        matches = tuple(
            not malformed and matches_selector(selector, node)
            for selector, malformed in zip(self._selectors, self._malformed, strict=True)
        )
        signature = (node.name if node.name in self._named else "", matches)
        known = cache.shared.get(signature)
        if known is None:
            relevant = (
                i
                for i, references in self._references.items()
                if self._matches_node(i, references, signature)
            )
            members = self._newest(relevant, {})
            evaluated = (self._cached_pool(pool, each, cache) for pool, each in members.items())
            pools = _ordered(pool for pool in evaluated if pool is not None)
            known = cache.shared[signature] = _Shared(members, pools)
        return known

    def _matches_node(
        self, number: int, references: Sequence[_NodeReference], signature: _Signature
    ) -> bool:
        """Tell whether a reference of a slice matches the node. Stops at the first match."""
        name, matches = signature
        for reference in references:
            if reference is None:
                return True
            if isinstance(reference, str):
                if reference == name:
                    return True
            elif self._malformed[reference]:
                text = f"slice {self.slices[number].name}: {self._malformed[reference]}"
                raise NodeSelectorError(text)
            elif matches[reference]:
                return True
        return False

    def _newest(
        self, numbers: Iterable[int], known: Mapping[PoolID, _Members]
    ) -> dict[PoolID, _Members]:
        """Add slices to the `known` members of their pools. Keep only the newest generation."""
        newest: dict[PoolID, _Members] = {}
        for number in numbers:
            each = self.slices[number]
            pool = PoolID(each.driver, each.pool)
            others = newest.get(pool) or known.get(pool, ())
            generation = self.slices[others[0]].generation if others else each.generation
            if each.generation > generation:
                newest[pool] = (number,)
            elif each.generation == generation:
                newest[pool] = (*others, number)
        return {pool: tuple(sorted(members)) for pool, members in newest.items()}

    def _cached_pool(self, pool: PoolID, members: _Members, cache: PoolCache) -> Pool | None:
        key = (pool, members)
        if key not in cache.pools:
            cache.pools[key] = self._evaluate(pool, members)
        return cache.pools[key]

    def _evaluate(self, pool: PoolID, members: _Members) -> Pool | None:
        """Evaluate a pool by the slices for the node. Return None if a newer generation exists."""
        relevant = tuple(self.slices[i] for i in members)
        # The scheduler uses the count of a random slice. Drawbridge uses the first slice by name.
        count, generation = relevant[0].slice_count, relevant[0].generation
        if len(relevant) == count:
            return self._build_pool(pool, relevant, ())
        published = self.published_slices(pool)
        if any(each.generation > generation for each in published):
            return None
        current = tuple(each for each in published if each.generation == generation)
        if self.gates.ignores_grouped_slices:
            current = tuple(each for each in current if not _grouped(each))
        if len(current) != count:
            return Pool(pool, generation, incomplete=True)
        names = {each.name for each in relevant}
        others = tuple(each for each in current if each.name not in names)
        return self._build_pool(pool, relevant, others)

    def _build_pool(
        self, pool: PoolID, relevant: tuple[Slice, ...], others: tuple[Slice, ...]
    ) -> Pool:
        generation = relevant[0].generation
        if not self.gates.partitionable_devices:
            invalid = _repeated_device(relevant)
            return Pool(pool, generation, invalid=invalid, slices=() if invalid else relevant)
        holding = tuple(each for each in relevant if not each.shared_counters)
        other_slices = tuple(each for each in others if not each.shared_counters)
        published = [s for each in (*relevant, *others) for s in each.shared_counters]
        sets = {each.name: each for each in published}
        invalid = (
            _repeated_device(holding)
            or _repeated("counter set", (each.name for each in published))
            or _unknown_counter(holding + other_slices, sets)
        )
        if invalid:
            return Pool(pool, generation, invalid=invalid)
        return Pool(pool, generation, slices=holding, other_slices=other_slices, counter_sets=sets)


def build_inventory(
    slices: Iterable[Slice],
    taint_rules: Iterable[DeviceTaintRule] = (),
    gates: Gates = DEFAULTS,
) -> Inventory:
    """Index slices. Adds the taints of the rules to devices if the feature gate is enabled."""
    ordered = sorted(slices, key=lambda each: each.name)
    pools = _by_pool(ordered)
    if gates.device_taint_rules:
        _taint(ordered, pools, sorted(taint_rules, key=lambda rule: rule.name))
    of_node: dict[str, list[int]] = {}
    references: dict[int, tuple[_NodeReference, ...]] = {}
    selectors: dict[NodeSelector, int] = {}
    for number, each in enumerate(ordered):
        references_of_slice = () if _ignored(each, gates) else _references(each, selectors)
        names = [reference for reference in references_of_slice if isinstance(reference, str)]
        if len(names) == len(references_of_slice):
            for name in names:
                of_node.setdefault(name, []).append(number)
        else:
            references[number] = references_of_slice
    return Inventory(
        slices=tuple(ordered),
        gates=gates,
        pools=pools,
        _of_node={name: tuple(members) for name, members in of_node.items()},
        _references=references,
        _selectors=tuple(selectors),
        _malformed=tuple("; ".join(selector_problems(selector)) for selector in selectors),
        _named=_named(references),
    )


def _by_pool(ordered: Iterable[Slice]) -> dict[PoolID, _Members]:
    pools: dict[PoolID, list[int]] = {}
    for number, each in enumerate(ordered):
        pools.setdefault(PoolID(each.driver, each.pool), []).append(number)
    return {pool: tuple(members) for pool, members in pools.items()}


def _named(references: Mapping[int, tuple[_NodeReference, ...]]) -> frozenset[str]:
    return frozenset(
        reference
        for references_of_slice in references.values()
        for reference in references_of_slice
        if isinstance(reference, str)
    )


def is_device_for_node(each: Slice, device: Device, node: Node) -> bool:
    """Tell whether a device is available on `node`, given that its slice is.

    Raises NodeSelectorError if the node selector of the device applies and cannot be parsed.
    """
    if not each.per_device_node_selection:
        return True
    return selects_node(
        node,
        name=device.node_name,
        everywhere=device.all_nodes,
        selector=device.node_selector,
    )


def _references(each: Slice, numbers: dict[NodeSelector, int]) -> tuple[_NodeReference, ...]:
    """Return the nodes of a slice; empty if it does not specify any."""
    if each.node_name:
        return (each.node_name,)
    if each.all_nodes:
        return (None,)
    if each.node_selector is not None:
        return (numbers.setdefault(each.node_selector, len(numbers)),)
    references: dict[_NodeReference, None] = {}
    for device in each.devices if each.per_device_node_selection else ():
        reference: _NodeReference = None
        if device.node_name:
            reference = device.node_name
        elif device.node_selector is not None and not device.all_nodes:
            reference = numbers.setdefault(device.node_selector, len(numbers))
        elif not device.all_nodes:
            continue
        references[reference] = None
    return tuple(references)


def _taint(
    ordered: list[Slice], pools: Mapping[PoolID, Sequence[int]], rules: Sequence[DeviceTaintRule]
) -> None:
    for pool, members in pools.items():
        applicable = [rule for rule in rules if may_apply(rule, pool.driver, pool.name)]
        for number in members if applicable else ():
            devices = with_taints(ordered[number].devices, applicable)
            ordered[number] = msgspec.structs.replace(ordered[number], devices=devices)


def _ignored(each: Slice, gates: Gates) -> bool:
    """Tell whether the scheduler ignores a slice because a feature gate is disabled."""
    if not gates.partitionable_devices and (
        each.per_device_node_selection is not None or each.shared_counters
    ):
        return True
    return gates.ignores_grouped_slices and _grouped(each)


def _grouped(each: Slice) -> bool:
    return any(
        use.compatibility_groups for device in each.devices for use in device.consumes_counters
    )


def _ordered(pools: Iterable[Pool]) -> tuple[Pool, ...]:
    """Sort pools by driver and name. Pools with binding conditions come last."""
    return tuple(sorted(pools, key=lambda pool: (_binds(pool), pool.id)))


def _binds(pool: Pool) -> bool:
    return any(device.binding_conditions for each in pool.slices for device in each.devices)


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
    for each in slices:
        for device in each.devices:
            for use in device.consumes_counters:
                known = sets.get(use.counter_set)
                if known is None:
                    return f"device {device.name} uses unknown counter set {use.counter_set}"
                for counter in use.counters:
                    if counter not in known.counters:
                        where = f"counter {counter} of counter set {use.counter_set}"
                        return f"device {device.name} uses unknown {where}"
    return ""
