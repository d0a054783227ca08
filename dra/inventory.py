"""The devices of a cluster: every slice, and the pools that count on a node.

`pools_for` says what the stock scheduler looks at for a node: the slices relevant there, of the
newest generation, with each pool judged complete and valid. What is allocated, and whether a
device suits a claim, is not known here.
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
    """What identifies a pool; sorts as upstream does, by driver and then by name."""

    driver: str
    name: str


class Pool(msgspec.Struct, frozen=True, eq=False):
    """One pool as a node sees it.

    An incomplete or invalid pool has no slices: nothing in it can be allocated. `slices` are those
    relevant for the node that hold devices, by name; `other_slices` those for other nodes, whose
    devices draw from the same counters.
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
        """Whether devices of this pool can be allocated at all."""
        return not self.incomplete and not self.invalid

    def devices(self) -> Iterator[tuple[Slice, Device]]:
        """Give the candidates in the order they are tried, each with its slice."""
        return ((each, device) for each in self.slices for device in each.devices)


# Slices by their number in `Inventory.slices`, those of one pool in ascending order.
_Members: TypeAlias = tuple[int, ...]
# One way to say which nodes a slice is for: a name, a selector by number, or None for all.
_Way: TypeAlias = str | int | None
# All that answers about slices without a node of their own can depend on.
_Signature: TypeAlias = tuple[str, tuple[bool, ...]]


class _Shared(NamedTuple):
    """The pools that a node sees of slices without a node of their own."""

    members: Mapping[PoolID, _Members]
    pools: tuple[Pool, ...]


class PoolCache:
    """What one inventory has answered; handing it in makes equal answers the same objects."""

    def __init__(self) -> None:
        self.pools: dict[tuple[PoolID, _Members], Pool | None] = {}
        self.shared: dict[_Signature, _Shared] = {}


class Inventory(msgspec.Struct, frozen=True, eq=False):
    """Every slice of a cluster, indexed. Made by `inventory`."""

    slices: tuple[Slice, ...]
    gates: Gates
    pools: Mapping[PoolID, _Members]
    _of_node: Mapping[str, _Members]
    _ways: Mapping[int, tuple[_Way, ...]]
    _selectors: tuple[NodeSelector, ...]
    _malformed: tuple[str, ...]
    _named: frozenset[str]

    def published_slices(self, pool: PoolID) -> tuple[Slice, ...]:
        """Give every slice of a pool, of every generation, by name."""
        return tuple(self.slices[i] for i in self.pools.get(pool, ()))

    def pools_for(self, node: Node, memo: PoolCache | None = None) -> tuple[Pool, ...]:
        """Give the pools visible from `node`, in the order their devices are tried.

        Raises NodeSelectorError where the scheduler would meet a selector it cannot parse.
        """
        memo = memo or PoolCache()
        shared = self._shared(node, memo)
        own = self._newest(self._of_node.get(node.name, ()), shared.members)
        if not own:
            return shared.pools
        pools = [pool for pool in shared.pools if pool.id not in own]
        judged = (self._judged(pool, members, memo) for pool, members in own.items())
        return _ordered([*pools, *(pool for pool in judged if pool is not None)])

    def _shared(self, node: Node, memo: PoolCache) -> _Shared:
        """Gather the pools of slices that are not bound to one node, once per kind of node."""
        verdicts = tuple(
            not malformed and matches_selector(selector, node)
            for selector, malformed in zip(self._selectors, self._malformed, strict=True)
        )
        signature = (node.name if node.name in self._named else "", verdicts)
        known = memo.shared.get(signature)
        if known is None:
            relevant = (i for i, ways in self._ways.items() if self._leads(i, ways, signature))
            members = self._newest(relevant, {})
            judged = (self._judged(pool, each, memo) for pool, each in members.items())
            pools = _ordered(pool for pool in judged if pool is not None)
            known = memo.shared[signature] = _Shared(members, pools)
        return known

    def _leads(self, number: int, ways: Sequence[_Way], signature: _Signature) -> bool:
        """Tell whether one of a slice's ways leads to the node; what comes after is not read."""
        name, verdicts = signature
        for way in ways:
            if way is None:
                return True
            if isinstance(way, str):
                if way == name:
                    return True
            elif self._malformed[way]:
                text = f"slice {self.slices[number].name}: {self._malformed[way]}"
                raise NodeSelectorError(text)
            elif verdicts[way]:
                return True
        return False

    def _newest(
        self, numbers: Iterable[int], known: Mapping[PoolID, _Members]
    ) -> dict[PoolID, _Members]:
        """Add slices to the `known` members of their pools; the highest generation wins."""
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

    def _judged(self, pool: PoolID, members: _Members, memo: PoolCache) -> Pool | None:
        key = (pool, members)
        if key not in memo.pools:
            memo.pools[key] = self._judge(pool, members)
        return memo.pools[key]

    def _judge(self, pool: PoolID, members: _Members) -> Pool | None:
        """Judge a pool by its relevant slices; None where a newer generation hides it."""
        relevant = tuple(self.slices[i] for i in members)
        # Upstream asks the slice it met first, which is any; here it is the first by name.
        count, generation = relevant[0].slice_count, relevant[0].generation
        if len(relevant) == count:
            return self._built(pool, relevant, ())
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
        return self._built(pool, relevant, others)

    def _built(self, pool: PoolID, relevant: tuple[Slice, ...], others: tuple[Slice, ...]) -> Pool:
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
    """Index slices, with the taints of the rules on their devices where the gate is on."""
    ordered = sorted(slices, key=lambda each: each.name)
    pools = _by_pool(ordered)
    if gates.device_taint_rules:
        _taint(ordered, pools, sorted(taint_rules, key=lambda rule: rule.name))
    of_node: dict[str, list[int]] = {}
    ways: dict[int, tuple[_Way, ...]] = {}
    selectors: dict[NodeSelector, int] = {}
    for number, each in enumerate(ordered):
        leads = () if _ignored(each, gates) else _ways(each, selectors)
        names = [way for way in leads if isinstance(way, str)]
        if len(names) == len(leads):
            for name in names:
                of_node.setdefault(name, []).append(number)
        else:
            ways[number] = leads
    return Inventory(
        slices=tuple(ordered),
        gates=gates,
        pools=pools,
        _of_node={name: tuple(members) for name, members in of_node.items()},
        _ways=ways,
        _selectors=tuple(selectors),
        _malformed=tuple("; ".join(selector_problems(selector)) for selector in selectors),
        _named=_named(ways),
    )


def _by_pool(ordered: Iterable[Slice]) -> dict[PoolID, _Members]:
    pools: dict[PoolID, list[int]] = {}
    for number, each in enumerate(ordered):
        pools.setdefault(PoolID(each.driver, each.pool), []).append(number)
    return {pool: tuple(members) for pool, members in pools.items()}


def _named(ways: Mapping[int, tuple[_Way, ...]]) -> frozenset[str]:
    return frozenset(way for leads in ways.values() for way in leads if isinstance(way, str))


def is_device_for_node(each: Slice, device: Device, node: Node) -> bool:
    """Tell whether a device of a slice that is relevant for `node` is itself for that node.

    Raises NodeSelectorError where the device's selector decides and cannot be parsed.
    """
    if not each.per_device_node_selection:
        return True
    return selects_node(
        node,
        name=device.node_name,
        everywhere=device.all_nodes,
        selector=device.node_selector,
    )


def _ways(each: Slice, numbers: dict[NodeSelector, int]) -> tuple[_Way, ...]:
    """Say which nodes a slice is for; nothing where it says nothing known."""
    if each.node_name:
        return (each.node_name,)
    if each.all_nodes:
        return (None,)
    if each.node_selector is not None:
        return (numbers.setdefault(each.node_selector, len(numbers)),)
    ways: dict[_Way, None] = {}
    for device in each.devices if each.per_device_node_selection else ():
        way: _Way = None
        if device.node_name:
            way = device.node_name
        elif device.node_selector is not None and not device.all_nodes:
            way = numbers.setdefault(device.node_selector, len(numbers))
        elif not device.all_nodes:
            continue
        ways[way] = None
    return tuple(ways)


def _taint(
    ordered: list[Slice], pools: Mapping[PoolID, Sequence[int]], rules: Sequence[DeviceTaintRule]
) -> None:
    for pool, members in pools.items():
        concerned = [rule for rule in rules if may_apply(rule, pool.driver, pool.name)]
        for number in members if concerned else ():
            devices = with_taints(ordered[number].devices, concerned)
            ordered[number] = msgspec.structs.replace(ordered[number], devices=devices)


def _ignored(each: Slice, gates: Gates) -> bool:
    """Tell whether the scheduler passes over a slice because a gate is off."""
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
    """Sort pools by driver and name, those with a device that waits for binding conditions last."""
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
