"""Shares search results between nodes in the same state.

Two nodes are in the same state if the claims cannot distinguish their candidates and their pools
have the same free counters. The key is computed only for searches that meet several dead ends, and
a digest of it is kept.
"""

import math
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from drawbridge.bounded_cache import BoundedCache
from drawbridge.solver.bounds import SearchBounds
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.demand import Abort, Demand, Option
from drawbridge.solver.meter import SearchLimitExceeded
from drawbridge.solver.node_view import NodeView
from drawbridge.solver.orders import CandidateOrders
from drawbridge.solver.rules import ActiveRules, GroupRule
from drawbridge.solver.search import DeadEnd, Search
from drawbridge.solver.state import ChosenDevice, State

# Of one demand: the states of nodes, and the bytes that they take.
MAX_NODE_STATES: Final = 2048
MAX_BYTES_OF_STATES: Final = 4 << 20
# A state without choices and rules, and each of those.
_BYTES_OF_STATE: Final = 800
_BYTES_OF_CHOICE: Final = 100
# Options with the positions of the chosen candidates.
_Choices: TypeAlias = tuple[tuple[Option, int], ...]


class SearchResult(NamedTuple):
    """The result of a search: a solution, the deepest dead end, or the step limit.

    `preferences` is how many preferred rules the solution satisfies.
    """

    solution: tuple[ChosenDevice, ...] | None = None
    deepest: DeadEnd | None = None
    gave_up: bool = False
    work: int = 0
    preferences: int = 0


class _CachedSearch(NamedTuple):
    """The result of a search, by positions of candidates, valid for all nodes in the same state."""

    choices: _Choices
    solved: bool
    dead_end: tuple[Option, int] | None
    gave_up: bool
    work: int


class _CacheHit(Exception):  # noqa: N818  # not an error: the search is unnecessary
    """A result for a node in the same state is cached."""

    def __init__(self, cached: _CachedSearch) -> None:
        super().__init__()
        self.cached = cached


class SearchCache:
    """The search results for one demand, by node state."""

    def __init__(self) -> None:
        # Results of the searches for one of these, by the state of the node: up to 4 MiB
        self._cached: BoundedCache[Hashable, _CachedSearch] = BoundedCache(
            MAX_NODE_STATES, MAX_BYTES_OF_STATES
        )

    @property
    def kept_bytes(self) -> int:
        """How many bytes the states of nodes take."""
        return self._cached.cost

    def search(
        self, state: State, all_mode_devices: Mapping[Option, Sequence[Candidate]], steps: int
    ) -> SearchResult:
        """Search a node, or reuse the result of an equal node; raises Abort.

        All searches share the steps and the meter of the node; the last solution stands.
        """
        demand, node_view = state.demand, state.node_view
        orders = CandidateOrders(demand, node_view, all_mode_devices)
        result = self._search(state, orders, steps)
        for better in self._prefer(demand, node_view, orders, steps, result):
            result = better
        return result

    def _prefer(
        self,
        demand: Demand,
        node_view: NodeView,
        orders: CandidateOrders,
        steps: int,
        result: SearchResult,
    ) -> Iterator[SearchResult]:
        """Keep each preferred rule that the required rules and the preferences before it allow.

        Yields each better result. What the limits leave no time for is not kept.
        """
        active = demand.rules.required
        chosen = _by_claim(result)
        any_state = State(demand, node_view)
        for preference in demand.rules.preferences if result.solution is not None else ():
            taken = chosen.get(preference.claim, ())
            steps_of_rule = active.copy_steps + math.ceil(len(taken) * preference.check_steps)
            try:
                node_view.meter.spend(steps_of_rule)
            except SearchLimitExceeded:
                return
            wanted = active.with_rule(preference)
            if not _holds(preference, active, taken, any_state):
                try:
                    state = State(demand, node_view, wanted)
                    better = self._search(state, orders, steps - result.work)
                except Abort:
                    # A preference must not add an error to a solution.
                    continue
                result = _replace(result, better)
                yield result
                if better.gave_up:
                    return
                if better.solution is None:
                    continue
                chosen = _by_claim(result)
            active = wanted
            result = result._replace(preferences=result.preferences + 1)
            yield result

    def _search(self, state: State, orders: CandidateOrders, steps: int) -> SearchResult:
        keys: list[Hashable] = []
        meter = state.node_view.meter
        before = meter.spent

        def make_pruning(search: Search) -> SearchBounds:
            bounds = SearchBounds(search)
            node_state_key = bounds.node_state_key()
            if node_state_key is not None:
                key = (steps, state.active_rules.rules, node_state_key)
                cached = self._cached.get(key)
                if cached is not None:
                    raise _CacheHit(cached)
                keys.append(key)
            return bounds

        search = Search(state, orders, make_pruning, steps)
        try:
            result = _run(search, before)
        except _CacheHit as hit:
            replayed = _replay(_empty(state), hit.cached)
            if replayed is not None:
                meter.return_to(before + hit.cached.work)
                return replayed
            warnings.warn("a node rejects the result of an equal one", stacklevel=1)
            return _run(Search(_empty(state), orders, SearchBounds, steps), meter.spent)
        for key in () if meter.is_late else keys:
            search_result = _to_cached(state.node_view, result)
            parts = len(search_result.choices) + len(state.active_rules.rules)
            self._cached.put(key, search_result, cost=_BYTES_OF_STATE + parts * _BYTES_OF_CHOICE)
        return result


def _by_claim(result: SearchResult) -> Mapping[int, Sequence[ChosenDevice]]:
    """Return the devices of a solution by claim, in search order."""
    chosen: dict[int, list[ChosenDevice]] = {}
    for each in result.solution or ():
        chosen.setdefault(each.option.claim, []).append(each)
    return chosen


def _holds(
    preference: GroupRule, active: ActiveRules, taken: Sequence[ChosenDevice], state: State
) -> bool:
    """Return whether the devices of its claim in a solution satisfy a preferred rule."""
    devices = (state.rule_device(each.option, each.candidate) for each in taken)
    return active.holds(preference, devices)


def _replace(result: SearchResult, better: SearchResult) -> SearchResult:
    """Return a better solution, or the known one, with the work of both searches."""
    solution = better.solution or result.solution
    return result._replace(solution=solution, work=result.work + better.work)


def _run(search: Search, before: int) -> SearchResult:
    """Run a search that the meter has counted nothing for but what was `before`."""
    meter = search.meter
    try:
        solved = search.run()
    except SearchLimitExceeded:
        return SearchResult(gave_up=True, work=meter.spent - before)
    solution, deepest = (tuple(search.state.trail), None) if solved else (None, search.deepest)
    return SearchResult(solution, deepest, work=meter.spent - before)


def _to_cached(node_view: NodeView, result: SearchResult) -> _CachedSearch:
    at = {candidate: i for i, candidate in enumerate(node_view.candidates)}
    deepest = result.deepest
    taken = result.solution or (deepest.taken if deepest else ())
    return _CachedSearch(
        choices=tuple((each.option, at[each.candidate]) for each in taken),
        solved=result.solution is not None,
        dead_end=(deepest.option, deepest.number) if deepest else None,
        gave_up=result.gave_up,
        work=result.work,
    )


def _empty(state: State) -> State:
    """Return the state of the same search before any choice."""
    return State(state.demand, state.node_view, state.active_rules)


def _replay(state: State, cached: _CachedSearch) -> SearchResult | None:
    """Return a cached result for another node, or None if the node rejects a choice.

    Nodes with equal keys accept equal choices: the key of a node that does not is a bug, which must
    not cost the pod this node.
    """
    for option, position in cached.choices:
        if state.take(option, state.node_view.candidates[position]) is not None:
            return None
    taken = tuple(state.trail)
    if cached.solved:
        return SearchResult(solution=taken, work=cached.work)
    deepest = DeadEnd(*cached.dead_end, taken) if cached.dead_end else None
    return SearchResult(deepest=deepest, gave_up=cached.gave_up, work=cached.work)
