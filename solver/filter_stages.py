"""How the candidates for a request get fewer, stage by stage; only looked at where none is left.

Says what went in and what came out, and for each stage who fell out. Words are made elsewhere.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from dra.nodes import NodeSelectorError
from solver.abort import Abort
from solver.candidates import Candidate
from solver.demand import Option
from solver.eligibility import SELECTED, Stage
from solver.state import ELSEWHERE, Refused, State

# The order in which people think of it: what is held matters only among what would do.
ORDER = (
    Stage.CLASS,
    Stage.REQUEST,
    Stage.NODE,
    Stage.SUPPORT,
    Stage.HELD,
    Stage.CAPACITY,
    Stage.GROUPS,
    Stage.COMPANY,
    Stage.COUNTERS,
    Stage.TAINT,
    Stage.CONSTRAINT,
)


class Loss(NamedTuple):
    """One stage: how many devices came to it, and who fell out for what."""

    stage: Stage
    before: int
    lost: Sequence[tuple[Candidate, object]]

    @property
    def after(self) -> int:
        """How many went on."""
        return self.before - len(self.lost)


class Funnel(NamedTuple):
    """The stages at which devices fell out, in order, and who is left."""

    losses: tuple[Loss, ...]
    left: tuple[Candidate, ...]

    def decisive(self, wanted: int) -> Loss | None:
        """Give the stage after which there were fewer than wanted."""
        return next((loss for loss in self.losses if loss.after < wanted), None)


def funnel(state: State, option: Option, candidates: Sequence[Candidate]) -> Funnel:
    """Judge all candidates for an option, in a state of the search."""
    lost: dict[Stage, list[tuple[Candidate, object]]] = defaultdict(list)
    left = []
    for candidate in candidates:
        refused = _refused(state, option, candidate)
        if refused is None:
            left.append(candidate)
        else:
            lost[refused.stage].append((candidate, refused.detail))
    before = len(candidates)
    losses = []
    for stage in ORDER:
        if lost[stage]:
            losses.append(Loss(stage, before, tuple(lost[stage])))
            before -= len(lost[stage])
    return Funnel(tuple(losses), tuple(left))


def _refused(state: State, option: Option, candidate: Candidate) -> Refused | None:
    verdict = option.screen.verdict(candidate)
    if verdict is not SELECTED:
        return Refused(verdict.stage or Stage.SUPPORT, verdict)
    try:
        if not state.site.here(candidate):
            return ELSEWHERE
        found = state.judged(option, candidate)
    except (Abort, NodeSelectorError):
        # It was not reached, or the answer would have been the error.
        return None
    return found if isinstance(found, Refused) else None
