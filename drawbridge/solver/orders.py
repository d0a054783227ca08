"""The devices that the search tries for a request, and their order.

Requests with allocation mode All take all devices that match, also those in use. They are found
before the search, and an error there fails the whole pod. Devices of other requests are tried in
the order of the slices, or as the strategy of the claim says.

The strategy compares the groups of the first rule about the request, then those of the next one.
Without such a rule, it compares pools. Only the devices of one driver count for each other. If the
rule is about partitions, a strategy that packs devices breaks no large free partition needlessly.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from drawbridge.dra.inventory import Pool
from drawbridge.dra.rules import PackingPolicy
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.constraints import typed_values
from drawbridge.solver.demand import (
    Cause,
    Demand,
    NodeAbort,
    Option,
    check_minimum,
    claim_name,
)
from drawbridge.solver.node_view import NodeView
from drawbridge.solver.state import State

# As many devices or attributes are looked at in about one step.
_PER_STEP: Final = 8
# An attribute such as gpu.nvidia.com/partition4: the partition of four devices.
_PARTITION: Final = re.compile(r"(?P<name>.*partition)(?P<size>[1-9][0-9]{0,2})", re.DOTALL)


class CandidateOrders:
    """The candidates of a node in the orders of one demand, and those of mode All.

    An order is made when a request needs it, once for all requests with equal rules. The groups of
    an attribute are found once for all orders.
    """

    def __init__(
        self,
        demand: Demand,
        node_view: NodeView,
        all_mode_devices: Mapping[Option, Sequence[Candidate]],
    ) -> None:
        self.all_mode_devices = all_mode_devices
        self._demand = demand
        self._strategies = demand.rules.strategies
        self._node_view = node_view
        self._by_request: dict[int, tuple[Candidate, ...]] = {}
        self._sorted: dict[tuple[object, ...], tuple[Candidate, ...]] = {}
        self._groups: dict[str, Mapping[Candidate, Hashable]] = {}
        self._free: dict[str, Mapping[Candidate, Sequence[int]]] = {}

    def candidates_for(self, option: Option) -> Sequence[Candidate]:
        """Return the candidates in the order in which they are tried for an option."""
        if option.all_mode:
            return self.all_mode_devices[option]
        if not self._strategies:
            return self._node_view.candidates
        order = self._by_request.get(option.request_index)
        if order is None:
            order = self._by_request[option.request_index] = self._order(option)
        return order

    def positions(self) -> tuple[tuple[int, ...], ...]:
        """Return the orders of all options that differ from the listed order, as in mode All."""
        at = {candidate: number for number, candidate in enumerate(self._node_view.candidates)}
        for option in self._demand.options():
            self.candidates_for(option)
        orders = (*self._sorted.values(), *self.all_mode_devices.values())
        return tuple(tuple(at[each] for each in order) for order in orders)

    def _order(self, option: Option) -> tuple[Candidate, ...]:
        self._node_view.meter.spend(1)
        strategy = self._strategies[option.claim]
        if strategy is None or strategy.devices is None:
            return self._node_view.candidates
        rules = self._demand.rules.attributes.get(option.request_index, ())
        key = (strategy.devices, *rules)
        if key not in self._sorted:
            self._sorted[key] = self._sort(strategy.devices, rules)
        return self._sorted[key]

    def _sort(
        self, policy: PackingPolicy, rules: Sequence[tuple[str, ...]]
    ) -> tuple[Candidate, ...]:
        """Sort the candidates by the use of their groups, rule by rule; equal ones stay as listed.

        A rule is known by its attributes.
        """
        packs, in_use = policy == "packed", self._in_use
        keys: dict[Candidate, list[int]] = {each: [] for each in self._node_view.candidates}
        for names in rules or [()]:
            groups = self._groups_of(names)
            used = Counter(group for each, group in groups.items() if in_use[each])
            partitions = self._free_partitions(names) if packs else {}
            for candidate, key in keys.items():
                number = used[groups[candidate]]
                key += [*partitions.get(candidate, ()), -number if packs else number]
        for candidate, key in keys.items():
            # Only a device that others share can be in use and be taken.
            key.append(-in_use[candidate] if packs else in_use[candidate])
        self._spend(1 + len(rules))
        return tuple(sorted(keys, key=keys.__getitem__))

    @cached_property
    def _in_use(self) -> Mapping[Candidate, bool]:
        uses = self._node_view.uses
        return {each: uses[each.pool].holds(each.name) for each in self._node_view.candidates}

    def _spend(self, rounds: int) -> None:
        """Count some rounds over all candidates."""
        self._node_view.meter.spend(1 + rounds * len(self._node_view.candidates) // _PER_STEP)

    def _groups_of(self, names: Sequence[str]) -> Mapping[Candidate, Hashable]:
        """Return the group of each device: the values of the first attribute that it publishes."""
        self._spend(1 + len(names))
        groups: dict[Candidate, Hashable] = {each: each.pool for each in self._node_view.candidates}
        for name in reversed(names):
            groups.update(self._groups_by_name(name))
        return groups

    def _groups_by_name(self, name: str) -> Mapping[Candidate, Hashable]:
        """Return the groups of the devices that publish an attribute."""
        groups = self._groups.get(name)
        if groups is None:
            self._spend(2)
            attributes = [(each, each.find_attribute(name)) for each in self._node_view.candidates]
            groups = self._groups[name] = {
                each: (each.pool.driver, name, typed_values(attribute))
                for each, attribute in attributes
                if attribute is not None
            }
        return groups

    def _free_partitions(self, names: Sequence[str]) -> Mapping[Candidate, Sequence[int]]:
        """Return, for each device, whether its partitions are free as a whole, largest first."""
        partition = next(filter(None, map(_PARTITION.fullmatch, names)), None)
        if partition is None:
            return {}
        name = partition["name"]
        free = self._free.get(name)
        if free is None:
            free = self._free[name] = self._find_free_partitions(name)
        return free

    def _find_free_partitions(self, name: str) -> Mapping[Candidate, Sequence[int]]:
        in_use, sizes = self._in_use, set[int]()
        for candidate in in_use:
            self._node_view.meter.spend(1 + len(candidate.device.attributes) // _PER_STEP)
            sizes.update(size for each, size in find_partitions(candidate) if each == name)
        is_free: dict[Candidate, list[int]] = {candidate: [] for candidate in in_use}
        for size in sorted(sizes, reverse=True):
            groups = self._groups_of((f"{name}{size}",))
            broken = {group for candidate, group in groups.items() if in_use[candidate]}
            for candidate, group in groups.items():
                is_free[candidate].append(group not in broken)
        return is_free


def find_partitions(candidate: Candidate) -> Iterator[tuple[str, int]]:
    """Yield the name and the size of each partition that a device has an attribute for."""
    driver = candidate.pool.driver
    for attribute in (*candidate.device.attributes, *candidate.partitions):
        full = attribute if "/" in attribute else f"{driver}/{attribute}"
        if (partition := _PARTITION.fullmatch(full)) is not None:
            yield partition["name"], int(partition["size"])


def devices_for_all_mode(state: State) -> Mapping[Option, tuple[Candidate, ...]]:
    """Return the devices for each option with mode All; raises Abort."""
    all_mode_devices: dict[Option, tuple[Candidate, ...]] = {}
    for number, options in state.demand.all_mode_options.items():
        devices = {option: _devices_for_option(state, option) for option in options}
        counts = {option.name: len(taken) for option, taken in devices.items()}
        check_minimum(state.demand.claims[number], counts, NodeAbort)
        all_mode_devices |= devices
    return all_mode_devices


def _devices_for_option(state: State, option: Option) -> tuple[Candidate, ...]:
    node_view = state.node_view
    checks_capacity = node_view.gates.consumable_capacity
    taken: list[Candidate] = []
    for pool in node_view.pools:
        if not pool.usable:
            what = "currently being updated" if pool.incomplete else "invalid"
            where = f"claim {claim_name(state.demand.claims[option.claim])}, request {option.name}"
            text = f"{where} requests all devices, but a pool is {what}"
            raise NodeAbort(Cause.POOL, text, describe_pool(pool))
        for candidate in node_view.memo.candidates_in_pool(pool):
            node_view.meter.spend(1)
            if state.check_selectors(option, candidate) is not None:
                continue
            # Allocated capacity does not count here: a full device is rejected later, not skipped.
            if checks_capacity and state.required_capacity(option, candidate).unsuitable:
                continue
            taken.append(candidate)
    return tuple(taken)


def describe_pool(pool: Pool) -> str:
    """Return the name of a pool, and why it is invalid: that can name devices and slices."""
    name = f"{pool.id.driver}/{pool.id.name}"
    return f"{name}: {pool.invalid}" if pool.invalid else name
