"""Projects a device to the attributes that an expression names, without the CEL view of the device.

Most devices were seen before with the same values of these attributes. Their view, which has all
attributes as CEL values, is not needed then.
"""

import re
from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

from drawbridge.cel.dra.reads import AttributeAccess, Reads, key_of_value
from drawbridge.dra.device import Attribute, Device

# Of a device of a driver.
PublishedProjection: TypeAlias = Callable[[str, Device], Hashable]
# Some of the versions that `drawbridge.cel.semver` parses: an unusual one only costs time.
_USUAL_VERSION: Final = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.(?:0|[1-9][0-9]{0,8})){2}")


def published_projection(reads: Reads) -> PublishedProjection | None:
    """Return the projection of an expression; None if it reads a whole map.

    Readable devices with equal keys give the same result. The keys are not those of
    `Reads.projection`, and are never equal to one that has another result.
    """
    parts = tuple(_part(each) for each in reads.accesses)
    complete = tuple(each for each in parts if each is not None)
    if len(complete) < len(parts):
        return None
    return lambda driver, device: tuple([part(driver, device) for part in complete])


def is_readable(device: Device, *, lists: bool) -> bool:
    """Whether all attributes certainly have CEL values; an expression fails without.

    False for a readable device only if it has unusual versions, or versions in lists.
    """
    return all(_has_value(each, lists=lists) for each in device.attributes.values())


def _has_value(attribute: Attribute, *, lists: bool) -> bool:
    if attribute.versions is not None:
        return False
    for scalar in (attribute.string, attribute.integer, attribute.boolean):
        if scalar is not None:
            return True
    if attribute.version is not None:
        return _USUAL_VERSION.fullmatch(attribute.version) is not None
    return lists and any(
        names is not None for names in (attribute.strings, attribute.integers, attribute.booleans)
    )


def _part(access: AttributeAccess) -> PublishedProjection | None:
    """Return the function for one access; None for a whole map or the whole device."""
    match access.path:
        case ("driver",):
            return lambda driver, _: driver
        case ("allowMultipleAllocations",):
            return lambda _, device: device.allow_multiple_allocations
        case ("attributes" | "capacity" as field, domain, identifier):
            return _map_part(field, domain, identifier, presence=access.presence)
    return None


def _map_part(field: str, domain: str, identifier: str, *, presence: bool) -> PublishedProjection:
    """Return the function for an attribute or a capacity, as published."""
    full = f"{domain}/{identifier}"
    # A published name without a domain is in the domain of the driver.
    is_identifier = "/" not in identifier

    def published(driver: str, device: Device) -> Hashable:
        values = device.attributes if field == "attributes" else device.capacity
        value = values.get(full)
        if value is None and is_identifier and driver == domain:
            value = values.get(identifier)
        if presence or value is None:
            return value is not None
        return value if isinstance(value, Attribute) else key_of_value(value.value)

    return published
