"""Asks whether any node has as many devices as a request needs."""

from collections.abc import Mapping

from drawbridge.dra.allocation import MAX_RESULTS
from drawbridge.dra.claim_codes import COUNT_NEVER_FITS
from drawbridge.dra.counted import count_noun, join_words
from drawbridge.finding import Finding
from drawbridge.judge.context import UnownedClass
from drawbridge.judge.devices.class_devices import RequestDevices, RequestPlace


def explain_unowned(
    devices: RequestDevices, place: RequestPlace, unowned: Mapping[str, UnownedClass]
) -> Finding | None:
    """Return a finding if the allocator owns none of the published devices of the class."""
    name, wanted = devices.class_name, devices.option.wanted.count
    if devices.of_class or name not in unowned:
        return None
    asked = (
        f"all {name} devices" if devices.option.all_mode else count_noun(wanted, f"{name} device")
    )
    why = "no node has any"
    remedy = "Correct the entries of ownedPools, or label the nodes that they are to select."
    if unowned[name].drivers:
        drivers = join_words(unowned[name].drivers, "or")
        why = f"ownedPools has no entry for driver {drivers}"
        remedy = f"Add an entry for driver {drivers} to ownedPools"
        elsewhere = ", or request the devices in pods of the default scheduler"
        remedy = f"{remedy}{elsewhere if unowned[name].elsewhere else ''}."
    message = f"{asked} requested, but {why}"
    return COUNT_NEVER_FITS.at(place.path, message, object=place.object, remedy=remedy)


def explain_count(devices: RequestDevices, place: RequestPlace) -> Finding | None:
    """Return a finding if no node has enough devices, or each has too many for mode All."""
    counts = [len(each) for each in devices.fitting]
    most, name = max(counts, default=0), devices.class_name
    if devices.option.all_mode:
        least = min((count for count in counts if count), default=0)
        if least <= MAX_RESULTS:
            return None
        message = (
            f"all matching {name} devices of a node requested, but each node has at least {least}, "
            f"and a claim can have at most {MAX_RESULTS}"
        )
        path = f"{place.path}.allocationMode"
        return COUNT_NEVER_FITS.at(path, message, object=place.object)
    wanted = devices.option.wanted.count
    if most >= wanted:
        return None
    message = f"{wanted} {name} devices requested, but no node has more than {most} that match"
    return COUNT_NEVER_FITS.at(f"{place.path}.count", message, object=place.object)
