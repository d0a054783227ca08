"""Checks attributes: conflicting types, duplicate names and the form of standard attributes.

Types are compared over all devices of a driver, because one selector applies to all of them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import astuple

from drawbridge.dra import attributes as standard
from drawbridge.dra.device import Attribute, Device
from drawbridge.dra.slices import KIND, Slice
from drawbridge.finding import Finding
from drawbridge.judge.slices import codes

_NAMES = ("string", "int", "bool", "version", "strings", "ints", "bools", "versions")
_FORMS = {
    standard.PCIE_ROOT: ("pci0000:3a", re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")),
    standard.PCI_BUS_ID: (
        "0000:3b:00.0",
        re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"),
    ),
}

_Location = tuple[str, str]


def check_types(slices: Iterable[Slice]) -> Iterator[Finding]:
    """Report attributes with different types on devices of one driver."""
    seen: dict[tuple[str, tuple[str, str]], dict[str, _Location]] = {}
    # Drivers publish the same names for all their devices.
    by_name: dict[tuple[str, str], dict[str, _Location]] = {}
    for slice_ in slices:
        for i, device in enumerate(slice_.devices):
            for name, attribute in device.attributes.items():
                locations = by_name.get((slice_.driver, name))
                if locations is None:
                    key = (slice_.driver, standard.split_name(name, slice_.driver))
                    locations = by_name[slice_.driver, name] = seen.setdefault(key, {})
                for kind in _value_types(attribute):
                    if kind not in locations:
                        locations[kind] = slice_.name, f"spec.devices[{i}].attributes[{name}]"
    for (driver, (domain, identifier)), locations in seen.items():
        (first, (where, _)), *others = locations.items() if locations else [("", ("", ""))]
        for kind, (name, path) in others:
            message = (
                f"attribute {domain}/{identifier} of {driver} has type {kind} here and {first} in "
                f"slice {where}: a selector or constraint can match only one of them"
            )
            yield codes.ATTRIBUTE_TYPES.at(path, message, object=f"{KIND}/{name}")


def check_names(slices: Iterable[Slice]) -> Iterator[Finding]:
    """Report names that are ambiguous or that no expression can read."""
    for slice_ in slices:
        for i, device in enumerate(slice_.devices):
            about, path = f"{KIND}/{slice_.name}", f"spec.devices[{i}]"
            for field in ("attributes", "capacity"):
                at = f"{path}.{field}"
                published: Mapping[str, object] = getattr(device, field)
                yield from _duplicate_names(slice_.driver, published, about, at)
                yield from _extra_slashes(published, about, at)


def _duplicate_names(
    driver: str, published: Mapping[str, object], about: str, path: str
) -> Iterator[Finding]:
    for name in published:
        domain, slash, identifier = name.partition("/") if "/" in name else (name, "", "")
        if slash and domain == driver and identifier in published:
            message = f"{identifier} has the same meaning; expressions see either of the two values"
            yield codes.NAME_TWICE.at(f"{path}[{name}]", message, object=about)


def _extra_slashes(published: Mapping[str, object], about: str, path: str) -> Iterator[Finding]:
    for name in published:
        if name.count("/") > 1:
            domain, _, identifier = name.partition("/")
            message = f"expressions cannot read {name}: it means {identifier} in domain {domain}"
            yield codes.NAME_SLASHES.at(f"{path}[{name}]", message, object=about)


def check_standard_forms(slices: Iterable[Slice]) -> Iterator[Finding]:
    """Report standard attributes that do not have their standard form."""
    for slice_ in slices:
        for i, device in enumerate(slice_.devices):
            for name, problem in _nonstandard(device):
                path = f"spec.devices[{i}].attributes[{name}]"
                message = f"{name} of device {device.name} {problem}"
                yield codes.STANDARD_ATTRIBUTE.at(path, message, object=f"{KIND}/{slice_.name}")


def _nonstandard(device: Device) -> Iterator[tuple[str, str]]:
    for name, (example, form) in _FORMS.items():
        if (attribute := device.attributes.get(name)) is not None:
            values = (attribute.string,) if attribute.strings is None else attribute.strings
            if not all(text is not None and form.fullmatch(text) for text in values):
                yield name, f"must be a string such as {example}"
    attribute = device.attributes.get(standard.NUMA_NODE)
    if attribute is not None:
        numbers = (attribute.integer,) if attribute.integers is None else attribute.integers
        if not all(number is not None and number >= 0 for number in numbers):
            yield (
                standard.NUMA_NODE,
                "must be an int of 0 or more; omit the attribute if there is no NUMA node",
            )


def _value_types(attribute: Attribute) -> list[str]:
    values = zip(_NAMES, astuple(attribute), strict=True)
    return [name for name, value in values if value is not None]
