"""The searches for the members of groups that were cut, so that each goes on where it stopped.

A decision takes the event loop for a short time only. A search that needs more is cut after a small
step, and goes on with the next question about its group.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from allocator.state.cluster_state import AllocatorState
from drawbridge.dra.claim import Claim
from drawbridge.solver.answers import Solution
from drawbridge.solver.gangs import Ask, GangPlacement, GangSearch, MemberKind
from drawbridge.solver.world import View

# A search that was cut, and found too few members, begins again if the use of devices has changed
# meanwhile. After so many times, its result counts.
MAX_STALE_SEARCHES: Final = 4


def ask_in(
    state: AllocatorState,
    view: View,
    ids: Callable[[], str],
    out_of_time: Callable[[], bool],
) -> Ask:
    """Return the question to the solver in one state of the devices."""

    def ask(nodes: Sequence[str], claims: Sequence[Claim]) -> Mapping[str, Solution]:
        answers = state.planner.solve_nodes(
            view,
            claims,
            nodes,
            ids=ids,
            checks_size=True,
            out_of_time=out_of_time,
        )
        return {name: each for name, each in answers.items() if isinstance(each, Solution)}

    return ask


class CutGroupSearch(msgspec.Struct, frozen=True):
    """A search in the use of devices with index `at`.

    It began in the state `epoch`, after `stale` others whose state was over at their end.
    """

    kinds: Sequence[MemberKind]
    uses: int
    at: int
    search: GangSearch
    epoch: int
    stale: int = 0


def place_members(  # noqa: PLR0913  # one question
    earlier: CutGroupSearch | None,
    kinds: Sequence[MemberKind],
    needed: int,
    *,
    asks: Sequence[Ask],
    epoch: int,
    out_of_time: Callable[[], bool],
) -> tuple[GangPlacement, CutGroupSearch | None]:
    """Find where members fit, in the first use of devices in which enough do.

    `asks` has a question to the solver for each use. The result is not complete if the search was
    cut, or if too few members fit and the state is another one than at the beginning; then the
    search that goes on is returned as well.
    """
    cut = earlier
    if cut is None or cut.kinds != kinds or cut.uses != len(asks):
        cut = CutGroupSearch(kinds, len(asks), 0, GangSearch(kinds), epoch)
    placement = cut.search.run(asks[cut.at], out_of_time)
    while placement.complete and placement.placed < needed and cut.at + 1 < len(asks):
        cut = replace(cut, at=cut.at + 1, search=GangSearch(kinds))
        placement = cut.search.run(asks[cut.at], out_of_time)
    if not placement.complete:
        return placement, cut
    if placement.placed < needed and cut.epoch != epoch and cut.stale < MAX_STALE_SEARCHES:
        again = CutGroupSearch(kinds, len(asks), 0, GangSearch(kinds), epoch, cut.stale + 1)
        return replace(placement, complete=False), again
    return placement, None
