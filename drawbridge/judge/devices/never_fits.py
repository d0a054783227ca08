"""Asks whether any device of a class can give the requested capacity."""

from collections.abc import Iterable
from typing import Final

from drawbridge.dra.capacity import CapacityError, Misfit, MisfitReason
from drawbridge.dra.claim_codes import CAPACITY_NEVER_FITS
from drawbridge.dra.quantity import Quantity
from drawbridge.finding import Finding
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices.class_devices import RequestDevices, RequestPlace
from drawbridge.judge.devices.never_matches import find_nearest_miss
from drawbridge.solver.candidates import Candidate

MAX_NAMES = 5
# A translation adds such a condition where a driver shares only some of its devices.
_SHARING: Final = "device.allowMultipleAllocations"
_NOT_SHARED: Final = (
    "Request an amount that a shared device can give, or a whole device: the larger ones are not "
    "shared."
)


def explain_capacity(
    devices: RequestDevices, place: RequestPlace, context: JudgeContext
) -> Finding | None:
    """Return a finding if no matching device can give the capacity, with the nearest miss."""
    if any(devices.fitting):
        return None
    matching = list(dict.fromkeys(device for each in devices.matching for device in each))
    needs = [devices.option.request_filter.required_capacity(device) for device in matching]
    misfits = [need.misfit for need in needs if need.misfit is not None]
    errors = [need.error for need in needs if need.error is not None]
    capacity = devices.option.wanted.capacity
    requested = dict(capacity.requests) if capacity else {}
    selected = {*matching}
    left_out = [each for each in devices.of_class if each not in selected]
    about = f"{devices.class_name} device{' that the selectors select' if left_out else ''}"
    name, message = _nearest_miss(about, misfits, errors, requested, matching)
    path = f"{place.path}.capacity.requests[{name}]" if name in requested else place.path
    fits = devices.option.request_filter.required_capacity
    enough = [each for each in left_out if not fits(each).unsuitable]
    remedy = None
    if enough:
        term, near = find_nearest_miss(devices.option, enough, context)
        message += f"; {_describe_largest(name, near)} does not satisfy {term.shown}"
        # The term can also compare with false.
        divides = all(map(_is_shared, matching)) and not any(map(_is_shared, near))
        if _SHARING in term.text and divides:
            remedy = _NOT_SHARED
    return CAPACITY_NEVER_FITS.at(path, message, object=place.object, remedy=remedy)


def _is_shared(candidate: Candidate) -> bool:
    return candidate.device.allow_multiple_allocations


def _describe_largest(name: str, devices: Iterable[Candidate]) -> str:
    """Describe the largest of devices that could give a capacity."""
    amounts = [each.device.capacity[name].value for each in devices if name in each.device.capacity]
    return f"one with {max(amounts)}" if amounts else "one that can give it"


def _nearest_miss(
    about: str,
    misfits: list[Misfit],
    errors: list[CapacityError],
    requested: dict[str, Quantity],
    matching: Iterable[Candidate],
) -> tuple[str, str]:
    """Return the capacity that the nearest device cannot give, and the message."""
    full = [each for each in misfits if each.why is MisfitReason.FULL]
    refused = [each for each in misfits if each.why is MisfitReason.POLICY]
    if full:
        best = max(full, key=_available)
        text = f"the largest {about} has {best.available} of {best.name}"
        return best.name, f"{text}, {_asked(best, requested)}"
    if refused:
        best = max(refused, key=_available)
        text = f"no {about} allows {best.requested} of {best.name} by its request policy"
        most = f"; the largest device has {best.available}" if best.available is not None else ""
        return best.name, f"{text}{_allowed(best.name, matching)}{most}"
    if errors:
        return errors[0].name, f"no {about} can give the capacity: {errors[0]}"
    name = misfits[0].name if misfits else ""
    published = sorted({key for device in matching for key in device.device.capacity})[:MAX_NAMES]
    has = f"they have {', '.join(published)}" if published else "they have no capacity"
    return name, f"no {about} has capacity {name}; {has}"


def _available(misfit: Misfit) -> int:
    return misfit.available.nanos() if misfit.available is not None else -1


def _asked(misfit: Misfit, requested: dict[str, Quantity]) -> str:
    asked = requested.get(misfit.name)
    if asked is None:
        return f"{misfit.requested} is the default of a request"
    if asked == misfit.requested:
        return f"{asked} requested"
    return f"{asked} requested, which the request policy rounds to {misfit.requested}"


def _allowed(name: str, matching: Iterable[Candidate]) -> str:
    """Return the amounts that the policy of the first device with one allows."""
    for device in matching:
        capacity = device.device.capacity.get(name)
        policy = capacity.request_policy if capacity else None
        if policy is None:
            continue
        if policy.valid_range is None:
            return f" (allowed: {', '.join(map(str, policy.valid_values))})"
        valid = policy.valid_range
        most = f" to {valid.max}" if valid.max is not None else " or more"
        step = f" in steps of {valid.step}" if valid.step is not None else ""
        return f" (allowed: {valid.min}{most}{step})"
    return ""
