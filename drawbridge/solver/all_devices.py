"""The devices that requests with allocation mode All must take on a node.

They are determined before the search, including devices in use. An error here fails the whole pod.
"""

from collections.abc import Mapping

from drawbridge.solver.abort import Abort, Cause
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.demand import MAX_RESULTS, Option, claim_name, minimum_devices
from drawbridge.solver.state import State


def devices_for_all_mode(state: State) -> Mapping[Option, tuple[Candidate, ...]]:
    """Return the devices for each option with mode All; raises Abort."""
    all_mode_devices: dict[Option, tuple[Candidate, ...]] = {}
    for number, claim in enumerate(state.demand.claims):
        options = (each for each in state.demand.options() if each.claim == number)
        devices = {
            option: _devices_for_option(state, option) for option in options if option.all_mode
        }
        if devices:
            minimum = minimum_devices(
                claim, {option.name: len(taken) for option, taken in devices.items()}
            )
            if minimum > MAX_RESULTS:
                text = (
                    f"needs at least {minimum} devices, but a claim can have at most {MAX_RESULTS}"
                )
                raise Abort(Cause.REFUSED, f"claim {claim_name(claim)}: {text}")
            all_mode_devices |= devices
    return all_mode_devices


def _devices_for_option(state: State, option: Option) -> tuple[Candidate, ...]:
    node_view = state.node_view
    checks_capacity = node_view.gates.consumable_capacity
    taken: list[Candidate] = []
    for pool in node_view.pools:
        if not pool.usable:
            what = "currently being updated" if pool.incomplete else f"invalid: {pool.invalid}"
            where = f"claim {claim_name(state.demand.claims[option.claim])}, request {option.name}"
            text = f"{where} requests all devices, but pool {pool.id.driver}/{pool.id.name} is"
            raise Abort(Cause.POOL, f"{text} {what}")
        for candidate in node_view.memo.candidates_in_pool(pool):
            if state.check_selectors(option, candidate) is not None:
                continue
            # Allocated capacity does not count here: a full device is rejected later, not skipped.
            if checks_capacity and state.required_capacity(option, candidate).unsuitable:
                continue
            taken.append(candidate)
    return tuple(taken)
