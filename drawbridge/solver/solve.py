"""Entry point of the solver: for each node, an allocation of a pod's claims or the reasons why not.

The solver reserves nothing. It keeps state between calls only in the `Memo` of the caller.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from drawbridge.brief import CutShort
from drawbridge.dra.claim import Claim
from drawbridge.dra.inventory import Pool
from drawbridge.dra.nodes import Node, NodeSelectorError
from drawbridge.solver.ahead import Answer, KnownAnswer, Question, digest_uses
from drawbridge.solver.answer_cache import (
    CachedResult,
    DemandResults,
    demand_key,
)
from drawbridge.solver.answers import (
    Failure,
    FailureKind,
    Solution,
    SolverResult,
    compose_allocations,
)
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.demand import Abort, NodeAbort, Option, build_demand, check_size
from drawbridge.solver.memo import CutOnNodeError, Memo
from drawbridge.solver.meter import SearchLimitExceeded, WorkMeter
from drawbridge.solver.node_classes import SearchCache, SearchResult
from drawbridge.solver.node_pools import NodePools
from drawbridge.solver.node_view import NodeView, PooledDevice
from drawbridge.solver.orders import devices_for_all_mode
from drawbridge.solver.reasons import (
    error_reason,
    explain_failure,
    search_limit_reason,
    time_limit_reason,
)
from drawbridge.solver.search import STEPS
from drawbridge.solver.state import State, selector_abort
from drawbridge.solver.world import UNUSED, PoolUse, View, World

# A demand that copies of the process could not decide about on so many nodes is given up on others.
MAX_GIVEN_UP: Final = 4


def solve(  # noqa: PLR0913  # the contract's arguments
    world: World,
    view: View,
    claims: Sequence[Claim],
    nodes: Iterable[Node],
    *,
    ids: Callable[[], str] | None = None,
    first: Sequence[PooledDevice] = (),
    memo: Memo | None = None,
    steps: int = STEPS,
    checks_size: bool = False,
) -> dict[str, SolverResult]:
    """Decide for each node, by name, whether and how the claims can be allocated there.

    `claims` are the unallocated claims of one pod, in the pod's order. `ids` returns a new share
    ID at each call; without it, share IDs mean nothing. The devices `first` are tried before the
    others, which are tried in the order of the slices; such an answer is not cached. `steps` limits
    the search on each node; a search that exceeds it fails. If `checks_size`, larger claims are
    refused than anybody writes. Raises OutOfTimeError if the memo's `brief` cuts the call.
    """
    memo = memo or Memo()
    memo.bind(world)
    try:
        demand_results = _demand_results(world, claims, memo, limited=checks_size)
    except Abort as abort:
        return {node.name: _failure(node.name, abort) for node in nodes}
    call = _SolveCall(world, view, demand_results, memo, ids, steps, first)
    try:
        return {node.name: call.solve_node(node) for node in nodes}
    finally:
        if demand_results.kept_cost != (cost := demand_results.cost):
            demand_results.kept_cost = cost
            memo.keep_demand(demand_results.key, demand_results, cost)
        if memo.brief is not None:
            memo.brief.stop()


def _demand_results(
    world: World, claims: Sequence[Claim], memo: Memo, *, limited: bool
) -> DemandResults:
    """Return the cached results of the claims, or a new empty entry."""
    key = demand_key(claims, world.classes)
    demand_results: DemandResults | None = memo.demands.get(key)
    if demand_results is None:
        if limited:
            check_size(claims)
        demand_results = DemandResults(
            key,
            build_demand(claims, world.classes, world.gates, memo.request_filter, world.deviations),
        )
    return demand_results


class _Solved(NamedTuple):
    """The result for a node, and whether it is kept for equal claims."""

    result: SolverResult
    has_shares: bool = False
    is_kept: bool = True


class _SolveCall(msgspec.Struct, frozen=True, eq=False):
    """The arguments of one call, and the cache entry of its claims."""

    world: World
    view: View
    demand_results: DemandResults
    memo: Memo
    ids: Callable[[], str] | None
    steps: int
    first: Sequence[PooledDevice]

    def solve_node(self, node: Node) -> SolverResult:
        """Decide for one node, from the cache if nothing changed."""
        try:
            state = self.memo.state_of(node)
        except NodeSelectorError as error:
            return _failure(node.name, selector_abort(error))
        pools = state.pools
        held = self.view.pools
        uses = tuple([held.get(pool.id, UNUSED) for pool in pools])
        cached = None if self.first else self.demand_results.results.get(node.name)
        if cached is not None and cached.is_current(node, pools, uses):
            if self.ids is None or not cached.has_shares or isinstance(cached.result, Failure):
                return cached.result
            return cached.result.with_new_share_ids(self.ids)
        self.memo.before_node()
        solved = self._find_ahead(state, uses) or self._solve_briefly(node, pools, uses)
        if solved is None:
            return self._cut(node)
        if solved.is_kept and not self.first:
            self.demand_results.results[node.name] = CachedResult(
                node, pools, uses, solved.result, solved.has_shares
            )
        return solved.result

    def _find_ahead(self, state: NodePools, uses: tuple[PoolUse, ...]) -> "_Solved | None":
        """Return what a copy of the process answered, with new share IDs."""
        answers = self.memo.ahead.get(self.demand_results.key)
        if answers is None:
            return None
        kept: KnownAnswer | None = answers.get(self._question(state.node, uses))
        if kept is None or kept.state() is not state:
            return None
        result, has_shares = kept.unpack()
        if self.ids is not None and has_shares and isinstance(result, Solution):
            result = result.with_new_share_ids(self.ids)
        return _Solved(result, has_shares)

    def _question(self, node: Node, uses: tuple[PoolUse, ...]) -> Question:
        return Question(self.demand_results.key, node.name, digest_uses(uses, self.first))

    def _solve_briefly(
        self, node: Node, pools: tuple[Pool, ...], uses: tuple[PoolUse, ...]
    ) -> "_Solved | None":
        """Solve for a node; return None if that was cut."""
        memo, cut = self.memo, (self.demand_results.key, node.name)
        if memo.brief is None:
            return self._solve_anew(node, pools, uses)
        if cut in memo.cuts:
            return None  # once in a decision is enough
        try:
            return memo.brief.run(lambda: self._solve_anew(node, pools, uses))
        except CutShort:
            if not self.first:
                memo.cuts.add(cut)
            return None

    def _cut(self, node: Node) -> SolverResult:
        """End the call, because a copy of the process has to answer; give up if none can."""
        if self.demand_results.given_up >= MAX_GIVEN_UP:
            return Failure(node.name, FailureKind.GAVE_UP, (time_limit_reason(node.name),))
        # Without the devices that are tried first, there is an answer.
        self.memo.was_cut |= not self.first
        raise CutOnNodeError(node.name)

    def _solve_anew(
        self, node: Node, pools: tuple[Pool, ...], uses: tuple[PoolUse, ...]
    ) -> "_Solved":
        """Solve for a node. A copy of the process tells the question, and then the answer."""
        tell = self.memo.tell
        if tell is None:
            return self._solve(node, pools, uses)
        question = self._question(node, uses)
        tell(question)
        solved = self._solve(node, pools, uses)
        tell(Answer(question, *solved[:-1]))
        return solved

    def _solve(self, node: Node, pools: tuple[Pool, ...], uses: tuple[PoolUse, ...]) -> "_Solved":
        node_view = NodeView(self.world, self.memo, node, pools, uses)
        node_view.meter = WorkMeter(self.memo.clock)
        if self.first:
            node_view.put_first(self.first)
        try:
            result, has_shares = self._search(node_view)
        except Abort as abort:
            # Not kept: the message names the claim, and equal claims have other names.
            return _Solved(_failure(node.name, abort), is_kept=False)
        return _Solved(result, has_shares)

    def _search(self, node_view: NodeView) -> tuple[SolverResult, bool]:
        """Return the result, and whether it has shares of devices."""
        node, demand, meter = node_view.node.name, self.demand_results.demand, node_view.meter
        all_mode_devices: Mapping[Option, Sequence[Candidate]] = {}
        # A cached search knows the order of the slices only.
        searches = SearchCache() if self.first else self.demand_results.searches
        try:
            state = State(demand, node_view)
            all_mode_devices = devices_for_all_mode(state)
            result = searches.search(state, all_mode_devices, self.steps)
        except SearchLimitExceeded:
            result = SearchResult(gave_up=True)
        if result.gave_up and meter.is_late:
            return Failure(node, FailureKind.GAVE_UP, (time_limit_reason(node),)), False
        if result.gave_up:
            reason = search_limit_reason(node, self.steps)
            return Failure(node, FailureKind.GAVE_UP, (reason,)), False
        if result.solution is not None:
            shares = any(each.candidate.shared for each in result.solution)
            allocations = compose_allocations(demand, node_view, result.solution, self.ids)
            return Solution(node, allocations, result.preferences), shares
        reasons = explain_failure(demand, node_view, all_mode_devices, result.deepest)
        return Failure(node, FailureKind.NO, reasons), False


def _failure(node: str, abort: Abort) -> Failure:
    of_node = isinstance(abort, NodeAbort)
    return Failure(node, FailureKind.ERROR, (error_reason(node, abort),), of_node)
