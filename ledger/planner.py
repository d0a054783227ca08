"""What is remembered between decisions: the world as it was last heard of, and the solver's memo.

Objects are put in and taken out one by one, as they are heard of. Only what a change concerns is
forgotten: an object that says the same again changes nothing, a class concerns no slice, a node no
class. With everything forgotten the answers are the same. Knows no clock and no API server; who
holds what is the ledger's.
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
from solver.deviations import OURS, Deviations
from solver.memo import Memo
from solver.search import STEPS
from solver.solve import solve
from solver.world import View, World

PlannerObject: TypeAlias = Slice | DeviceTaintRule | DeviceClass | Node


class Planner:
    """The world and its memo; what the cluster's scheduler and the configuration say is fixed."""

    def __init__(
        self,
        gates: Gates = DEFAULTS,
        *,
        compatibility: Sequence[Declaration] = (),
        unset_groups: UnsetGroups = UnsetGroups.ALONE,
        deviations: Deviations = OURS,
    ) -> None:
        self._gates = gates
        self._compatibility = tuple(compatibility)
        self._unset_groups = unset_groups
        self._deviations = deviations
        self._slices: dict[str, Slice] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._classes: dict[str, DeviceClass] = {}
        self._nodes: dict[str, Node] = {}
        self._inventory: Inventory | None = None
        self._world: World | None = None
        self._memo = Memo()

    def put(self, each: PlannerObject) -> bool:
        """Take an object as it is by now; False where it says nothing new."""
        kept, name = self._kept(type(each)), _name(each)
        if kept.get(name) == each:
            # The object known before stays: the memo goes by identity.
            return False
        kept[name] = each
        self._changed(type(each))
        return True

    def remove(self, kind: type[PlannerObject], name: str) -> bool:
        """Take out what is gone; False where it was not there."""
        if self._kept(kind).pop(name, None) is None:
            return False
        self._changed(kind)
        return True

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return self._nodes

    def world(self) -> World:
        """Give the world as it is known; the same until something of it changes."""
        if self._inventory is None:
            self._inventory = build_inventory(self._slices.values(), self._rules.values(), self._gates)
        if self._world is None:
            self._world = World(
                inventory=self._inventory,
                classes=dict(self._classes),
                compatibility=self._compatibility,
                unset_groups=self._unset_groups,
                deviations=self._deviations,
            )
        return self._world

    def answers(
        self,
        view: View,
        claims: Sequence[Claim],
        nodes: Iterable[str] | None = None,
        *,
        ids: Callable[[], str],
        steps: int = STEPS,
    ) -> dict[str, SolverResult]:
        """Answer for nodes by name, or for all of them; names that are no node are left out."""
        names = self._nodes if nodes is None else nodes
        asked = [self._nodes[name] for name in names if name in self._nodes]
        world = self.world()
        return solve(world, view, claims, asked, ids=ids, memo=self._memo, steps=steps)

    def pools(self, node: str) -> tuple[PoolID, ...]:
        """Give the pools that a decision about a node depends on."""
        self._memo.bind(self.world())
        try:
            return tuple(pool.id for pool in self._memo.pools_for(self._nodes[node]))
        except NodeSelectorError:
            return ()

    def forget(self) -> None:
        """Forget everything but the world itself."""
        self._memo = Memo()

    def _kept(self, kind: type[PlannerObject]) -> dict[str, PlannerObject]:
        kept: dict[type, dict[str, PlannerObject]] = {
            Slice: self._slices,  # type: ignore[dict-item]  # each of its own kind
            DeviceTaintRule: self._rules,  # type: ignore[dict-item]  # the same
            DeviceClass: self._classes,  # type: ignore[dict-item]  # the same
            Node: self._nodes,  # type: ignore[dict-item]  # the same
        }
        return kept[kind]

    def _changed(self, kind: type[PlannerObject]) -> None:
        if kind is not Node:
            self._world = None
        if kind in (Slice, DeviceTaintRule):
            self._inventory = None


def _name(each: PlannerObject) -> str:
    return each.metadata.name if isinstance(each, DeviceClass) else each.name
