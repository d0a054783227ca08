"""Filters the candidates of a request stage by stage, to explain why too few are left.

`drawbridge.solver.messages` turns the result into text.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from drawbridge.dra.nodes import NodeSelectorError
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.codes import CODE_BY_STAGE
from drawbridge.solver.demand import Abort, Option
from drawbridge.solver.eligibility import SELECTED, Stage
from drawbridge.solver.state import OTHER_NODE, Rejection, State

STAGE_ORDER = tuple(CODE_BY_STAGE)


class StageLoss(NamedTuple):
    """One stage: the number of devices before it, and the rejected devices with details."""

    stage: Stage
    before: int
    rejected: Sequence[tuple[Candidate, object]]

    @property
    def after(self) -> int:
        """The number of devices after the stage."""
        return self.before - len(self.rejected)


class FilterResult(NamedTuple):
    """The stages that rejected devices, in order, and the remaining devices."""

    losses: tuple[StageLoss, ...]
    remaining: tuple[Candidate, ...]

    def first_shortage(self, requested: int) -> StageLoss | None:
        """Return the first stage that left fewer devices than requested."""
        return next((loss for loss in self.losses if loss.after < requested), None)


def filter_candidates(
    state: State, option: Option, candidates: Sequence[Candidate]
) -> FilterResult:
    """Check all candidates for an option, in a state of the search."""
    rejected: dict[Stage, list[tuple[Candidate, object]]] = defaultdict(list)
    remaining = []
    meter = state.node_view.meter
    for candidate in candidates:
        meter.spend(1)
        rejection = _rejection(state, option, candidate)
        if rejection is None:
            remaining.append(candidate)
        else:
            rejected[rejection.stage].append((candidate, rejection.detail))
    before = len(candidates)
    losses = []
    for stage in STAGE_ORDER:
        if rejected[stage]:
            losses.append(StageLoss(stage, before, tuple(rejected[stage])))
            before -= len(rejected[stage])
    return FilterResult(tuple(losses), tuple(remaining))


def _rejection(state: State, option: Option, candidate: Candidate) -> Rejection | None:
    verdict = option.request_filter.check_selectors(candidate)
    if verdict is not SELECTED:
        return Rejection(verdict.stage or Stage.SUPPORT, verdict)
    try:
        if not state.node_view.is_on_node(candidate):
            return OTHER_NODE
        result = state.check_device(option, candidate)
    except (Abort, NodeSelectorError):
        # The search did not reach this error, otherwise it would be the result.
        return None
    return result if isinstance(result, Rejection) else None
