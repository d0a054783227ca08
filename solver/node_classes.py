"""Shares search results between nodes in the same state.

Two nodes are in the same state if the claims cannot distinguish their candidates and their pools
have the same free counters. The key is computed only for searches that meet several dead ends.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from solver.bounds import SearchBounds
from solver.candidates import Candidate
from solver.demand import Option
from solver.node_view import NodeView
from solver.search import DeadEnd, Search, SearchLimitExceeded
from solver.state import ChosenDevice, State

MAX_NODE_STATES = 2048
# Options with the positions of the chosen candidates.
_Choices: TypeAlias = tuple[tuple[Option, int], ...]


class SearchResult(NamedTuple):
    """The result of a search: a solution, the deepest dead end, or the step limit."""

    solution: tuple[ChosenDevice, ...] | None = None
    deepest: DeadEnd | None = None
    gave_up: bool = False
    work: int = 0


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
        self._cached: dict[Hashable, _CachedSearch] = {}

    def search(
        self,
        state: State,
        all_mode_devices: Mapping[Option, Sequence[Candidate]],
        steps: int,
        max_work: int | None = None,
    ) -> SearchResult:
        """Search a node, or reuse the result of an equal node; raises Abort."""
        keys: list[Hashable] = []

        def make_pruning(search: Search) -> SearchBounds:
            bounds = SearchBounds(search)
            node_state_key = bounds.node_state_key()
            if node_state_key is not None:
                key = (steps, max_work, node_state_key)
                if key in self._cached:
                    raise _CacheHit(self._cached[key])
                keys.append(key)
            return bounds

        search = Search(state, all_mode_devices, make_pruning, steps, max_work)
        try:
            result = _run(search)
        except _CacheHit as hit:
            return _replay(State(state.demand, state.node_view), hit.cached)
        for key in keys:
            if len(self._cached) >= MAX_NODE_STATES:
                self._cached.clear()
            self._cached[key] = _to_cached(state.node_view, result)
        return result


def _run(search: Search) -> SearchResult:
    try:
        solved = search.run() is None
    except SearchLimitExceeded:
        return SearchResult(gave_up=True, work=search.work)
    return (
        SearchResult(solution=tuple(search.state.trail), work=search.work)
        if solved
        else SearchResult(deepest=search.deepest, work=search.work)
    )


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


def _replay(state: State, cached: _CachedSearch) -> SearchResult:
    for option, position in cached.choices:
        rejection = state.take(option, state.node_view.candidates[position])
        assert rejection is None, rejection  # noqa: S101  # equal nodes accept equal choices
    taken = tuple(state.trail)
    if cached.solved:
        return SearchResult(solution=taken, work=cached.work)
    deepest = DeadEnd(*cached.dead_end, taken) if cached.dead_end else None
    return SearchResult(deepest=deepest, gave_up=cached.gave_up, work=cached.work)
