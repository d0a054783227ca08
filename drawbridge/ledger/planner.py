"""Keeps the world and the solver's memo between decisions.

The caller applies object events one by one. Each change invalidates only what depends on it; an
equal object changes nothing. The caches never change a result. The ledger tracks device use.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from drawbridge.brief import Brief, CutShort
from drawbridge.cel.dra import Selectors
from drawbridge.dra.claim import Claim, ClaimMetadata
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.compatibility import Declaration, UnsetGroups
from drawbridge.dra.counters import CounterKey
from drawbridge.dra.device import CounterUse
from drawbridge.dra.gates import DEFAULTS, Gates
from drawbridge.dra.inventory import (
    Inventory,
    Pool,
    PoolID,
    PublishedPool,
    build_inventory,
    find_published_pool,
)
from drawbridge.dra.layered_map import LayeredMap
from drawbridge.dra.nodes import Node, NodeSelectorError
from drawbridge.dra.partitions import PartitionTable
from drawbridge.dra.slices import Slice
from drawbridge.dra.taints import DeviceTaintRule
from drawbridge.solver.ahead import (
    Answer,
    Learnt,
    LentState,
    Question,
    Tell,
    learn,
)
from drawbridge.solver.answers import Failure, FailureKind, SolverResult
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.deviations import Allocator
from drawbridge.solver.expressions import Evaluators
from drawbridge.solver.memo import Memo, OutOfTimeError
from drawbridge.solver.node_view import PooledDevice
from drawbridge.solver.reasons import time_limit_reason
from drawbridge.solver.solve import solve
from drawbridge.solver.stage_counts import RequestStages, count_stages
from drawbridge.solver.world import View, World

PlannerObject: TypeAlias = Slice | DeviceTaintRule | DeviceClass | Node
T = TypeVar("T")
_NO_CLASS = DeviceClass(metadata=ClaimMetadata())


class Planner:
    """The world and its memo; gates, configuration and allocator are fixed.

    `brief` runs each search on a node, and may cut it short.
    """

    def __init__(  # noqa: PLR0913  # all but the gates by name
        self,
        gates: Gates = DEFAULTS,
        *,
        compatibility: Sequence[Declaration] = (),
        unset_groups: UnsetGroups = UnsetGroups.ALONE,
        partitions: Sequence[PartitionTable] = (),
        allocator: Allocator = Allocator.DRAWBRIDGE,
        brief: Brief | None = None,
    ) -> None:
        if allocator is Allocator.DRAWBRIDGE:
            gates = gates.with_groups()
        self.selectors = Selectors.of_gates(gates)
        self._compatibility = tuple(compatibility)
        self._unset_groups = unset_groups
        self._partitions = tuple(partitions)
        self._allocator = allocator
        self._slices: dict[str, Slice] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._classes: LayeredMap[str, DeviceClass] = LayeredMap(_NO_CLASS)
        self._nodes: dict[str, Node] = {}
        self._inventory = build_inventory((), gates=gates)
        # The changes that the inventory does not have yet: changed slices as it has them, by name.
        self._changed_slices: dict[str, Slice | None] = {}
        self._rules_changed = False
        self._world: World | None = None
        self._memo = Memo(Evaluators(self.selectors), brief)
        # The cuts that do not matter to the decision.
        self._cuts_aside: set[tuple[bytes, str]] = set()

    def update(self, changed: PlannerObject) -> bool:
        """Apply an added or changed object; False if it equals the known one."""
        name = _name(changed)
        before = self._find(type(changed), name)
        if before == changed:
            # Keep the known object, because the memo compares by identity.
            return False
        self._replace(name, before, changed)
        return True

    def remove(self, kind: type[PlannerObject], name: str) -> bool:
        """Remove a deleted object; False if it is unknown."""
        before = self._find(kind, name)
        if before is None:
            return False
        self._replace(name, before, None)
        return True

    @property
    def obeys_rules(self) -> bool:
        """Whether the allocator obeys the rules of claims."""
        return self._allocator is Allocator.DRAWBRIDGE

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
            classes=self._classes,
            compatibility=self._compatibility,
            unset_groups=self._unset_groups,
            partitions=self._partitions,
        )

    def solve_nodes(  # noqa: PLR0913  # all but three by name
        self,
        view: View,
        claims: Sequence[Claim],
        nodes: Iterable[str],
        *,
        ids: Callable[[], str] | None = None,
        first: Sequence[PooledDevice] = (),
        checks_size: bool = False,
        out_of_time: Callable[[], bool] | None = None,
    ) -> dict[str, SolverResult]:
        """Solve for nodes by name; unknown names are ignored.

        `out_of_time` is asked between nodes and between evaluations of expressions, but not before
        the first one. Raises OutOfTimeError then, and if the search on a node was cut; what was
        decided is kept for the next call.
        """
        world, memo = self.world(), self._memo
        memo.bind(world)
        requested = [self._nodes[name] for name in nodes if name in self._nodes]
        memo.limit_time(out_of_time)
        try:
            return solve(
                world,
                view,
                claims,
                requested,
                ids=ids,
                first=first,
                memo=memo,
                checks_size=checks_size,
            )
        finally:
            memo.limit_time(None)

    # --- answers of copies of this process ---

    @property
    def was_cut(self) -> bool:
        """Whether a search on a node was cut since the decision began."""
        return self._memo.was_cut

    @property
    def is_slow(self) -> bool:
        """Whether a decision was cut, or passed over more than one node; one may be the cause."""
        demands = [demand for demand, _ in self._memo.cuts - self._cuts_aside]
        return self.was_cut or len(demands) > len(set(demands))

    def begin_decision(self, seconds: float) -> None:
        """Begin a decision, in which the search on a node may take some seconds."""
        self.forget_cut()
        self._memo.cuts.clear()
        self._cuts_aside.clear()
        if self._memo.brief is not None:
            self._memo.brief.seconds = seconds

    def forget_cut(self) -> None:
        """Forget that a search was cut, because its result does not matter to the decision."""
        self._memo.was_cut = False

    @contextmanager
    def searching_aside(self, seconds: float | None = None) -> Iterator[None]:
        """Search what does not matter to the decision, so that no cut within counts.

        The search on a node may take some seconds; without a number, as long as in the decision.
        """
        memo, brief = self._memo, self._memo.brief or Brief()
        was_cut, cuts, of_decision = memo.was_cut, frozenset(memo.cuts), brief.seconds
        brief.seconds = of_decision if seconds is None else seconds
        try:
            yield
        finally:
            memo.was_cut, brief.seconds = was_cut, of_decision
            self._cuts_aside |= memo.cuts - cuts

    def become_copy(self, tell: Tell, clock: Callable[[], float]) -> None:
        """Tell what is computed from now on, without being cut, in a copy of the process."""
        self._memo.become_copy(tell, clock)

    def lend(self) -> LentState:
        """Return what a copy knows that begins now, for what it tells later."""
        return LentState(self.world(), self._nodes.values())

    def learn(self, learnt: Learnt, lent: LentState) -> None:
        """Keep what a copy told, unless what it depends on has changed since."""
        if lent.has_settings_of(self.world()):
            learn(self._memo, self.world(), self._nodes, learnt, lent)

    def give_up(self, question: Question, lent: LentState) -> None:
        """Keep that no copy can answer a question within its limits."""
        reasons = (time_limit_reason(question.node),)
        self.learn(Answer(question, Failure(question.node, FailureKind.GAVE_UP, reasons)), lent)

    def count_stages(
        self, view: View, claims: Sequence[Claim], nodes: Iterable[str]
    ) -> tuple[RequestStages, ...]:
        """Return how many devices of these nodes each filter leaves for each request."""
        requested = [self._nodes[name] for name in nodes if name in self._nodes]
        return count_stages(self.world(), view, claims, requested, self._memo)

    def pools_for(self, node: str) -> tuple[PoolID, ...]:
        """Return the pools that a decision about a node depends on; none if it is not known.

        The scheduler can know a node that was just created or deleted.
        """
        return tuple(pool.id for pool in self._seen_pools(node))

    def node_pools(self, node: str) -> tuple[tuple[Pool, tuple[Candidate, ...]], ...]:
        """Return the usable pools that a node sees, with their devices."""
        return tuple(
            (pool, self._memo.candidates_in_pool(pool)) for pool in self._usable_pools(node)
        )

    def count_devices(self, node: str) -> int:
        """Return how many devices of usable pools a node sees, without reading them."""
        pools = self._usable_pools(node)
        return sum(len(part.devices) for each in pools for part in each.slices)

    def counters_left(self, node: str, pool: PoolID, view: View) -> Mapping[CounterKey, int]:
        """Return what allocated devices leave of the counters of a pool that a node can use."""
        for usable in self._usable_pools(node):
            if usable.id == pool:
                return self._memo.baseline(usable, view.use(pool)).counters.remaining
        return {}

    def _usable_pools(self, node: str) -> list[Pool]:
        return [each for each in self._seen_pools(node) if each.usable]

    def _seen_pools(self, node: str) -> Sequence[Pool]:
        """Return the pools that a node sees; none if it, or a selector, is not readable."""
        self._memo.bind(self.world())
        try:
            return self._memo.pools_for(self._nodes[node]) if node in self._nodes else ()
        except NodeSelectorError:
            return ()

    def part_in_use(self, node: str, view: View) -> float:
        """Return the part of the devices of a node that claims hold."""
        held = total = 0
        for pool in self._seen_pools(node):
            use = view.use(pool.id)
            held += len(use.dedicated | use.shares.keys())
            total += sum(len(each.devices) for each in pool.slices)
        return held / total if total else 0.0

    def find_pool(self, pool: PoolID) -> PublishedPool | None:
        """Return a pool as it is published; None while it is incomplete."""
        return find_published_pool(self.world().inventory, pool)

    def counter_uses(self, pool: PoolID, device: str) -> tuple[CounterUse, ...]:
        """Return the counters that a device consumes, with its effective groups.

        Raises OutOfTimeError if what its driver declares takes too long.
        """
        self._memo.bind(self.world())
        published = self.find_pool(pool)
        wanted = published.devices.get(device) if published else None
        if published is None or wanted is None or not wanted.consumes_counters:
            return ()
        of_slices = map(self._memo.candidates.of_slice, published.slices)
        candidates = itertools.chain.from_iterable(of_slices)
        candidate = next(each for each in candidates if each.device is wanted)
        brief = self._memo.brief or Brief()
        try:
            return brief.run(lambda: candidate.counter_uses)
        except CutShort:
            raise OutOfTimeError from None
        finally:
            brief.stop()

    def _current_inventory(self) -> Inventory:
        """Return the inventory with all changes, at a cost that depends on the changed pools."""
        if self._rules_changed:
            self._inventory = self._inventory.with_taint_rules(self._rules.values())
            self._rules_changed = False
        if self._changed_slices:
            removed = [each for each in self._changed_slices.values() if each is not None]
            added = [self._slices[each] for each in self._changed_slices if each in self._slices]
            self._inventory = self._inventory.with_slices(removed, added)
            self._changed_slices = {}
        return self._inventory

    def _find(self, kind: type[PlannerObject], name: str) -> PlannerObject | None:
        objects: dict[type, Mapping[str, PlannerObject]] = {
            Slice: self._slices,
            DeviceTaintRule: self._rules,
            DeviceClass: self._classes,
            Node: self._nodes,
        }
        return objects[kind].get(name)

    def _replace(
        self, name: str, before: PlannerObject | None, after: PlannerObject | None
    ) -> None:
        match after or before:
            case Slice():
                _put(self._slices, Slice, name, after)
                slice_before = before if isinstance(before, Slice) else None
                self._changed_slices.setdefault(name, slice_before)
            case DeviceTaintRule():
                _put(self._rules, DeviceTaintRule, name, after)
                self._rules_changed = True
            case DeviceClass():
                changed = after if isinstance(after, DeviceClass) else _NO_CLASS
                self._classes = self._classes.updated({name: changed})
            case Node():
                _put(self._nodes, Node, name, after)
                if after is None:
                    self._memo.drop_node(name)
                return
        self._world = None


def _put(objects: dict[str, T], kind: type[T], name: str, after: PlannerObject | None) -> None:
    if isinstance(after, kind):
        objects[name] = after
    else:
        objects.pop(name, None)


def _name(changed: PlannerObject) -> str:
    return changed.metadata.name if isinstance(changed, DeviceClass) else changed.name
