"""Mode All: which devices a request for all of them has to take on a site.

Decided before the search, on every device, whoever holds it: an error met here is one for the pod.
"""

from collections.abc import Mapping

from solver.abort import Abort, Cause
from solver.candidates import Candidate
from solver.demand import MOST_RESULTS, Option, least, shown
from solver.state import State


def everything(state: State) -> Mapping[Option, tuple[Candidate, ...]]:
    """Give what each option with mode All has to take; raises Abort."""
    found: dict[Option, tuple[Candidate, ...]] = {}
    for number, claim in enumerate(state.demand.claims):
        options = (each for each in state.demand.options() if each.claim == number)
        every = {option: _all_of(state, option) for option in options if option.every}
        if every:
            minimum = least(claim, {option.name: len(taken) for option, taken in every.items()})
            if minimum > MOST_RESULTS:
                text = f"it needs at least {minimum} devices, a claim can have {MOST_RESULTS}"
                raise Abort(Cause.REFUSED, f"claim {shown(claim)}: {text}")
            found |= every
    return found


def _all_of(state: State, option: Option) -> tuple[Candidate, ...]:
    site = state.site
    taken: list[Candidate] = []
    for pool in site.pools:
        if not pool.usable:
            what = "currently being updated" if pool.incomplete else f"invalid: {pool.invalid}"
            where = f"claim {shown(state.demand.claims[option.claim])}, request {option.name}"
            text = f"{where} asks for all devices, but pool {pool.id.driver}/{pool.id.name} is"
            raise Abort(Cause.POOL, f"{text} {what}")
        for candidate in site.memo.in_pool(pool):
            if state.selected(option, candidate) is not None:
                continue
            # What others took does not count here: a full device is not left out, it is refused.
            if site.gates.consumable_capacity and state.need(option, candidate).misfit is not None:
                continue
            taken.append(candidate)
    return tuple(taken)
