"""Sites in the same state share one search: what was found on one is replayed on the others.

Two sites are alike when their candidates, one by one, cannot be told apart by anything the claims
ask, and their pools have the same left. Only searches that went wrong at first are worth the look.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from solver.bounds import Bounds
from solver.candidates import Candidate
from solver.demand import Option
from solver.node_view import Site
from solver.search import Deepest, GaveUp, Search
from solver.state import State, Taken

MOST_SITES = 2048
# Options with the positions of the candidates that they take.
_Picks: TypeAlias = tuple[tuple[Option, int], ...]


class Found(NamedTuple):
    """What a search ended with: a solution, or the deepest dead end, or only that it gave up."""

    solution: tuple[Taken, ...] | None = None
    deepest: Deepest | None = None
    gave_up: bool = False


class _Kept(NamedTuple):
    """What a search ended with, in terms of any site that is alike."""

    picks: _Picks
    solved: bool
    dead_end: tuple[Option, int] | None
    gave_up: bool


class _Recalled(Exception):  # noqa: N818  # no error: the search is not needed
    """A site that is alike was searched before."""

    def __init__(self, kept: _Kept) -> None:
        super().__init__()
        self.kept = kept


class Alike:
    """What was found on sites, by what they are like, for one question."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    def search(
        self, state: State, every: Mapping[Option, Sequence[Candidate]], steps: int
    ) -> Found:
        """Search a site, or recall one that is alike; raises Abort."""
        keys: list[Hashable] = []

        def helped(search: Search) -> Bounds:
            bounds = Bounds(search)
            likeness = bounds.likeness()
            if likeness is not None:
                key = (steps, likeness)
                if key in self._kept:
                    raise _Recalled(self._kept[key])
                keys.append(key)
            return bounds

        search = Search(state, every, helped, steps)
        try:
            found = _run(search)
        except _Recalled as recalled:
            return _replayed(State(state.demand, state.site), recalled.kept)
        for key in keys:
            if len(self._kept) >= MOST_SITES:
                self._kept.clear()
            self._kept[key] = _kept(state.site, found)
        return found


def _run(search: Search) -> Found:
    try:
        solved = search.run() is None
    except GaveUp:
        return Found(gave_up=True)
    return Found(solution=tuple(search.state.trail)) if solved else Found(deepest=search.deepest)


def _kept(site: Site, found: Found) -> _Kept:
    at = {candidate: i for i, candidate in enumerate(site.candidates)}
    deepest = found.deepest
    taken = found.solution or (deepest.taken if deepest else ())
    return _Kept(
        picks=tuple((each.option, at[each.candidate]) for each in taken),
        solved=found.solution is not None,
        dead_end=(deepest.option, deepest.number) if deepest else None,
        gave_up=found.gave_up,
    )


def _replayed(state: State, kept: _Kept) -> Found:
    for option, position in kept.picks:
        refused = state.take(option, state.site.candidates[position])
        assert refused is None, refused  # noqa: S101  # alike sites take alike
    taken = tuple(state.trail)
    if kept.solved:
        return Found(solution=taken)
    deepest = Deepest(*kept.dead_end, taken) if kept.dead_end else None
    return Found(deepest=deepest, gave_up=kept.gave_up)
