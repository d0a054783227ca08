"""Keeps the world and the solver's memo between decisions.

The caller applies object events one by one. Each change invalidates only what depends on it; an
equal object changes nothing. The caches never change a result. The ledger tracks device use.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from dra.claim import Claim
from dra.classes import DeviceClass
from dra.compatibility import Declaration, UnsetGroups
from dra.gates import DEFAULTS, Gates
from dra.inventory import Inventory, PoolID, build_inventory
from dra.nodes import Node, NodeSelectorError
from dra.slices import Slice
from dra.taints import DeviceTaintRule
from solver.answers import SolverResult
from solver.deviations import Allocator
from solver.memo import Memo
from solver.search import STEPS
from solver.solve import solve
from solver.world import View, World

PlannerObject: TypeAlias = Slice | DeviceTaintRule | DeviceClass | Node


class Planner:
    """The world and its memo; gates, configuration and allocator are fixed."""

    def __init__(
        self,
        gates: Gates = DEFAULTS,
        *,
        compatibility: Sequence[Declaration] = (),
        unset_groups: UnsetGroups = UnsetGroups.ALONE,
        allocator: Allocator = Allocator.DRAWBRIDGE,
    ) -> None:
        self._gates = gates
        self._compatibility = tuple(compatibility)
        self._unset_groups = unset_groups
        self._allocator = allocator
        self._slices: dict[str, Slice] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._classes: dict[str, DeviceClass] = {}
        self._nodes: dict[str, Node] = {}
        self._inventory: Inventory | None = None
        self._world: World | None = None
        self._memo = Memo()

    def update(self, each: PlannerObject) -> bool:
        """Apply an added or changed object; False if it equals the known one."""
        objects, name = self._objects_of(type(each)), _name(each)
        if objects.get(name) == each:
            # Keep the known object, because the memo compares by identity.
            return False
        objects[name] = each
        self._invalidate(type(each))
        return True

    def remove(self, kind: type[PlannerObject], name: str) -> bool:
        """Remove a deleted object; False if it is unknown."""
        if self._objects_of(kind).pop(name, None) is None:
            return False
        self._invalidate(kind)
        return True

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return self._nodes

    def world(self) -> World:
        """Return the current world as the allocator sees it; the same object until a change."""
        if self._world is None:
            world = self.declared_world()
            self._world = world.as_upstream() if self._allocator is Allocator.UPSTREAM else world
        return self._world

    def declared_world(self) -> World:
        """Return the world with all compatibility declarations, whichever the allocator reads."""
        return World(
            inventory=self._current_inventory(),
            classes=dict(self._classes),
            compatibility=self._compatibility,
            unset_groups=self._unset_groups,
        )

    def solve_nodes(
        self,
        view: View,
        claims: Sequence[Claim],
        nodes: Iterable[str] | None = None,
        *,
        ids: Callable[[], str],
        steps: int = STEPS,
    ) -> dict[str, SolverResult]:
        """Solve for nodes by name, or for all nodes; unknown names are ignored."""
        names = self._nodes if nodes is None else nodes
        requested = [self._nodes[name] for name in names if name in self._nodes]
        world = self.world()
        return solve(world, view, claims, requested, ids=ids, memo=self._memo, steps=steps)

    def pools_for(self, node: str) -> tuple[PoolID, ...]:
        """Return the pools that a decision about a node depends on."""
        self._memo.bind(self.world())
        try:
            return tuple(pool.id for pool in self._memo.pools_for(self._nodes[node]))
        except NodeSelectorError:
            return ()

    def clear_cache(self) -> None:
        """Clear the caches; the world stays."""
        self._memo = Memo()

    def _current_inventory(self) -> Inventory:
        if self._inventory is None:
            self._inventory = build_inventory(
                self._slices.values(), self._rules.values(), self._gates
            )
        return self._inventory

    def _objects_of(self, kind: type[PlannerObject]) -> dict[str, PlannerObject]:
        objects: dict[type, dict[str, PlannerObject]] = {
            Slice: self._slices,  # type: ignore[dict-item]  # each of its own kind
            DeviceTaintRule: self._rules,  # type: ignore[dict-item]  # the same
            DeviceClass: self._classes,  # type: ignore[dict-item]  # the same
            Node: self._nodes,  # type: ignore[dict-item]  # the same
        }
        return objects[kind]

    def _invalidate(self, kind: type[PlannerObject]) -> None:
        if kind is not Node:
            self._world = None
        if kind in (Slice, DeviceTaintRule):
            self._inventory = None


def _name(each: PlannerObject) -> str:
    return each.metadata.name if isinstance(each, DeviceClass) else each.name
