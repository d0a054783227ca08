"""A node as the solver sees it: its pools, its candidates and their use."""

from collections.abc import Sequence
from functools import cached_property
from typing import TypeAlias

from drawbridge.dra.compatibility import GroupStates, PlacedDevice
from drawbridge.dra.counters import Counters
from drawbridge.dra.gates import Gates
from drawbridge.dra.inventory import Pool, PoolID, is_device_for_node
from drawbridge.dra.nodes import Node
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.memo import Memo
from drawbridge.solver.meter import WorkMeter
from drawbridge.solver.world import PoolUse, World

PooledDevice: TypeAlias = tuple[PoolID, str]
OPTIONAL_OPERATIONS = "DRAOptionalNodeOperations"


def reads_skip_node_operations(gates: Gates) -> bool:
    """Return whether the scheduler reads skipNodeOperations.

    Only the allocator variant that these alpha features select reads it.
    """
    return (
        gates.optional_node_operations
        or gates.list_type_attributes
        or gates.derived_attributes
        or gates.device_compatibility_groups
    )


class NodeView:
    """A node, the pools visible from it, and the candidates of the usable pools.

    `meter` counts and limits the work for it.
    """

    def __init__(
        self,
        world: World,
        memo: Memo,
        node: Node,
        pools: tuple[Pool, ...],
        uses: tuple[PoolUse, ...],
    ) -> None:
        self.meter = WorkMeter()
        self.world = world
        self.gates = world.gates
        self.node = node
        self.memo = memo
        self.pools = pools
        self.by_id = {pool.id: pool for pool in pools}
        self.uses: dict[PoolID, PoolUse] = dict(zip(self.by_id, uses, strict=True))
        self._allocated: dict[str, tuple[PlacedDevice, ...]] = {}
        self.candidates: tuple[Candidate, ...] = tuple(
            [
                candidate
                for pool in pools
                if pool.usable
                for candidate in memo.candidates_in_pool(pool)
            ]
        )

    def put_first(self, devices: Sequence[PooledDevice]) -> None:
        """Put candidates before the others, in this order."""
        place = {device: number for number, device in enumerate(devices)}
        self.candidates = tuple(
            sorted(self.candidates, key=lambda each: place.get((each.pool, each.name), len(place)))
        )

    def supports_node_operations(self, candidate: Candidate) -> bool:
        """Return whether the node supports the operations that the device's slice skips."""
        if not candidate.slice.skip_node_operations or not reads_skip_node_operations(self.gates):
            return True
        declared = OPTIONAL_OPERATIONS in self.node.declared_features
        return self.gates.optional_node_operations and declared

    def counters(self, pool: PoolID) -> Counters:
        """Return the counters that the allocated devices of a pool leave."""
        return self.memo.baseline(self.by_id[pool], self.uses[pool]).counters

    def group_states(self, pool: PoolID) -> GroupStates:
        """Return the compatibility groups of allocated devices on the counter sets of a pool."""
        seen = self.by_id[pool]
        return self.memo.baseline(seen, self.uses[pool]).group_states if seen.counter_sets else {}

    def is_on_node(self, candidate: Candidate) -> bool:
        """Return whether the device is available to this node; raises NodeSelectorError."""
        of_slice = candidate.slice
        return not of_slice.per_device_node_selection or is_device_for_node(
            of_slice, candidate.device, self.node
        )

    def allocated_devices(self, driver: str) -> tuple[PlacedDevice, ...]:
        """Return the allocated devices of a driver on this node, for `compatibleOnlyWith` rules."""
        held = self._allocated.get(driver)
        if held is None:
            held = self._allocated[driver] = tuple(
                self.placed_device(candidate)
                for candidate in self.candidates
                if candidate.pool.driver == driver
                and self.uses[candidate.pool].holds(candidate.name)
                and self.is_on_node(candidate)
            )
        return held

    @cached_property
    def drivers_with_rules(self) -> frozenset[str]:
        """The drivers with a device that may have a `compatibleOnlyWith` rule."""
        return frozenset(each.pool.driver for each in self.candidates if each.may_rule)

    def has_rules(self, driver: str) -> bool:
        """Return whether a device of a driver has a `compatibleOnlyWith` rule."""
        return driver in self.drivers_with_rules and any(
            each.rule is not None for each in self.candidates if each.pool.driver == driver
        )

    def placed_device(self, candidate: Candidate, *, admin: bool = False) -> PlacedDevice:
        """Return a device in the form that `compatibleOnlyWith` rules evaluate."""
        return PlacedDevice(self.node.name, candidate.peer, candidate.rule, admin)
