"""Caches that the solver keeps between calls; they never change a result.

A memo is bound to one world at a time. Other feature gates or compatibility rules clear it; another
inventory drops only what belongs to changed pools.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from drawbridge.bounded_cache import BoundedCache
from drawbridge.brief import Brief, whole
from drawbridge.dra.capacity import Amounts
from drawbridge.dra.compatibility import CounterSetID, GroupState, GroupStates, initial_states
from drawbridge.dra.counters import Counters, available_counters, subtract
from drawbridge.dra.inventory import IndexedPool, Pool, PoolCache, PoolID
from drawbridge.dra.nodes import Node
from drawbridge.solver.candidates import Candidate, CandidateCache
from drawbridge.solver.eligibility import RequestFilter, SelectorTexts
from drawbridge.solver.expressions import Evaluators
from drawbridge.solver.lost_devices import LostDevice, find_lost_devices
from drawbridge.solver.node_pools import NodePools, are_same
from drawbridge.solver.world import PoolUse, World

# Demands, and their results for nodes.
MAX_DEMANDS = 128
MAX_NODE_RESULTS = 200_000
# Demands about which copies of the process told answers, and the bytes of these answers. One demand
# has a quarter of them at most: two answers about each of 5,000 nodes.
MAX_DEMANDS_AHEAD = 64
MAX_BYTES_AHEAD = 64 << 20
MAX_PART_AHEAD = 4


class Baseline:
    """The counters that allocated devices leave in a pool, and the groups on its counter sets.

    The groups are found when somebody asks for them.
    """

    def __init__(
        self, use: PoolUse, counters: Counters, find_groups: Callable[[], GroupStates]
    ) -> None:
        self.use = use
        self.counters = counters
        self._find_groups = find_groups

    @cached_property
    def group_states(self) -> GroupStates:
        """The groups of allocated devices, by counter set."""
        return self._find_groups()


class OutOfTimeError(Exception):
    """A call ends before its result; the next one with equal arguments continues."""


class CutOnNodeError(OutOfTimeError):
    """A call ends because the search on a node was cut."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node


class Memo:
    """Caches filter results of devices, the pools of nodes and the free counters of pools.

    `before_node` is called before a node is searched whose result is not known, and may raise.
    `brief`, if there is one, runs the search on a node. If that was cut, `was_cut` says so, and
    `cuts` has its demand and the node until the next decision; `ahead` has what copies of the
    process answered since about demands, and `tell` is what a copy tells its answers.
    `clock` returns the processor's time of this thread, and limits that of the search on a node.
    """

    def __init__(
        self,
        evaluators: Evaluators | None = None,
        brief: Brief | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._evaluators = evaluators or Evaluators()
        self.brief = brief
        self.clock = clock
        self.was_cut = False
        self.cuts: set[tuple[bytes, str]] = set()
        # Demands about which copies answered: up to 64 MiB, a quarter of them about one demand
        self.ahead: BoundedCache[bytes, BoundedCache[Any, Any]] = BoundedCache(
            MAX_DEMANDS_AHEAD, MAX_BYTES_AHEAD, MAX_PART_AHEAD
        )
        self.before_node = do_nothing
        self.tell: Callable[[Any], None] | None = None  # None in a process that is no copy
        self._world: World | None = None
        # Claims with their results on nodes: up to 200,000, as one of which count 1,000
        # bytes of a claim or of states of nodes
        self.demands: BoundedCache[bytes, Any] = BoundedCache(MAX_DEMANDS, MAX_NODE_RESULTS, 1)

    @whole
    def bind(self, world: World) -> None:
        """Drop what is not valid for this world. The cost depends only on the changed pools."""
        before, self._world = self._world, world
        if world is before:
            return
        if before is None or world.settings != before.settings:
            self._clear(world)
            return
        pools, pools_before = world.inventory.pools, before.inventory.pools
        if pools is not pools_before:
            for pool in pools.changed_keys(pools_before):
                self._drop_pool(pool, pools_before.value(pool), pools.value(pool))

    def limit_time(self, out_of_time: Callable[[], bool] | None) -> None:
        """Let calls raise OutOfTimeError when they are `out_of_time`; None sets no limit.

        The first node is not interrupted, so that each call decides something.
        """
        self.before_node = end_after_first(out_of_time)

    def become_copy(
        self, tell: Callable[[Any], None], clock: Callable[[], float] | None = None
    ) -> None:
        """Compute what this copy of a process tells; nothing is cut, but a clock limits it."""
        self.brief, self.clock, self.tell = None, clock, tell
        if self._world is not None:
            self.expressions.tell = tell

    def _clear(self, world: World) -> None:
        self.demands.clear()
        self.ahead.clear()
        self.expressions = self._evaluators.of_gates(world.gates)
        self.expressions.tell = self.tell
        self.candidates = CandidateCache(world, self.expressions)
        self._gates = world.gates
        self._deviations = world.deviations
        self._unset_groups = world.unset_groups
        self._pools = PoolCache()
        self._states: dict[str, NodePools] = {}
        self._generation = 0  # of the states of nodes
        self._candidates_by_pool: dict[Pool, tuple[Candidate, ...]] = {}
        self._baselines: dict[Pool, Baseline] = {}

    def _drop_pool(self, pool: PoolID, before: IndexedPool, after: IndexedPool) -> None:
        """Drop what belongs to a changed pool, but not the candidates of unchanged slices."""
        for of_node in self._pools.drop(pool):
            self._candidates_by_pool.pop(of_node, None)
            self._baselines.pop(of_node, None)
        kept = {id(each) for each in after.slices}
        for of_pool in before.slices:
            if id(of_pool) not in kept:
                self.candidates.drop(of_pool)
        if before.nodes.only_named and after.nodes.only_named:
            for node in (*before.nodes.by_name, *after.nodes.by_name):
                if node in self._states:
                    self._states[node].generation = -1
        else:
            self._generation += 1

    def drop_node(self, name: str) -> None:
        """Drop what belongs to a deleted node."""
        for demand in self.demands.values():
            demand.results.pop(name, None)
        if self._world is not None:
            self._states.pop(name, None)

    def pools_for(self, node: Node) -> tuple[Pool, ...]:
        """Return the pools visible from a node; raises NodeSelectorError."""
        return self.state_of(node).pools

    def state_of(self, node: Node) -> NodePools:
        """Return the state of a node: another one as soon as decisions can differ."""
        state = self._states.get(node.name)
        is_current = state is not None and state.generation == self._generation
        if state is not None and is_current and state.node is node:
            return state
        assert self._world is not None  # noqa: S101  # bound before
        pools = self._world.inventory.pools_for(node, self._pools)
        if state is not None and are_same(state.node, state.pools, node, pools):
            state.renew(node, pools, self._generation)
        else:
            state = self._states[node.name] = NodePools(node, pools, self._generation)
        return state

    def candidates_in_pool(self, pool: Pool) -> tuple[Candidate, ...]:
        """Return the candidates of a pool."""
        cached = self._candidates_by_pool.get(pool)
        if cached is None:
            cached = self._candidates_by_pool[pool] = self.candidates.in_pool(pool)
        return cached

    def request_filter(self, selectors: SelectorTexts, requested: Amounts) -> RequestFilter:
        """Return a filter, whose results devices keep."""
        return RequestFilter(
            self.expressions,
            selectors,
            requested,
            self.candidates.count_result,
            gates=self._gates,
        )

    def keep_demand(self, key: bytes, demand: object, cost: int) -> None:
        """Keep a demand, with its results for nodes; what it costs grows with them."""
        self.demands.put(key, demand, cost=min(cost, MAX_NODE_RESULTS - 1))

    def baseline(self, pool: Pool, use: PoolUse) -> Baseline:
        """Return what the allocated devices of a pool leave; caches the last result."""
        cached = self._baselines.get(pool)
        if cached is None or cached.use != use:
            cached = self._baselines[pool] = self._compute_baseline(pool, use)
        return cached

    def _compute_baseline(self, pool: Pool, use: PoolUse) -> Baseline:
        slices = (*pool.slices, *pool.other_slices)
        published = [candidate for each in slices for candidate in self.candidates.of_slice(each)]
        held = [candidate for candidate in published if use.holds(candidate.name)]
        devices = (candidate.device for candidate in published)
        counters = available_counters(pool.counter_sets, devices, {each.name for each in held})
        lost: Sequence[LostDevice] = ()
        if self._deviations.snapshots_count and use.snapshots:
            totals = available_counters(pool.counter_sets, (), ()).remaining
            lost = find_lost_devices(use.snapshots, published, totals)
            counters = subtract(counters, (each.consumed for each in lost))
        return Baseline(use, counters, lambda: self._find_groups(pool, held, lost))

    def _find_groups(
        self, pool: Pool, held: Sequence[Candidate], lost: Sequence[LostDevice]
    ) -> GroupStates:
        groups = [(pool.id, each.counter_uses) for each in held]
        groups += [(pool.id, device.uses) for device in lost]
        group_states = dict(initial_states(groups, self._unset_groups))
        for holding in held:
            if holding.group_error:
                # No device can safely join a device with unknown groups.
                group_states |= {
                    CounterSetID(pool.id, u.counter_set): CLOSED_COMPANY
                    for u in holding.counter_uses
                }
        return group_states


def do_nothing() -> None:
    """Let the call go on."""


def end_after_first(out_of_time: Callable[[], bool] | None) -> Callable[[], None]:
    """Return a function that raises OutOfTimeError when `out_of_time`, except in its first call."""
    if out_of_time is None:
        return do_nothing
    calls = itertools.count()

    def check_time() -> None:
        if next(calls) and out_of_time():
            raise OutOfTimeError

    return check_time


CLOSED_COMPANY = GroupState(members=True, groups=frozenset())
