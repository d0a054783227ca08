"""Asks whether any device of a class can give the requested capacity."""

from collections.abc import Iterable

from drawbridge.dra.capacity import CapacityError, Misfit, MisfitReason
from drawbridge.dra.claim_codes import CAPACITY_NEVER_FITS
from drawbridge.dra.quantity import Quantity
from drawbridge.finding import Finding
from drawbridge.judge.devices.class_devices import RequestDevices, RequestPlace
from drawbridge.solver.candidates import Candidate

MAX_NAMES = 5


def explain_capacity(devices: RequestDevices, place: RequestPlace) -> Finding | None:
    """Return a finding if no matching device can give the capacity, with the nearest miss."""
    if any(devices.fitting):
        return None
    matching = list(dict.fromkeys(device for each in devices.matching for device in each))
    needs = [devices.option.request_filter.required_capacity(device) for device in matching]
    misfits = [need.misfit for need in needs if need.misfit is not None]
    errors = [need.error for need in needs if need.error is not None]
    capacity = devices.option.wanted.capacity
    requested = dict(capacity.requests) if capacity else {}
    name, message = _nearest_miss(devices.class_name, misfits, errors, requested, matching)
    path = f"{place.path}.capacity.requests[{name}]" if name in requested else place.path
    return CAPACITY_NEVER_FITS.at(path, message, object=place.object)


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
        text = f"the largest {about} device has {best.available} of {best.name}"
        return best.name, f"{text}, {_asked(best, requested)}"
    if refused:
        best = max(refused, key=_available)
        text = f"no {about} device allows {best.requested} of {best.name} by its request policy"
        most = f"; the largest device has {best.available}" if best.available is not None else ""
        return best.name, f"{text}{_allowed(best.name, matching)}{most}"
    if errors:
        return errors[0].name, f"no {about} device can give the capacity: {errors[0]}"
    name = misfits[0].name if misfits else ""
    published = sorted({key for device in matching for key in device.device.capacity})[:MAX_NAMES]
    has = f"they have {', '.join(published)}" if published else "they have no capacity"
    return name, f"no {about} device has capacity {name}; {has}"


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
