"""Checks attributes: conflicting types, duplicate names and the form of standard attributes.

Types are compared over all devices of a driver, because one selector applies to all of them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import astuple

from drawbridge.dra import attributes as standard
from drawbridge.dra.device import Attribute, Device
from drawbridge.dra.similar_names import suggest
from drawbridge.dra.slices import KIND, Slice
from drawbridge.finding import Finding
from drawbridge.judge.slices import codes
from drawbridge.judge.slices.ordinary_devices import DeviceShape, OrdinaryDevices

_NAMES = ("string", "int", "bool", "version", "strings", "ints", "bools", "versions")
_FORMS = {
    standard.PCIE_ROOT: re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}"),
    standard.PCI_BUS_ID: re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"),
}
_EXAMPLES = {
    standard.PCIE_ROOT: "a string such as pci0000:3a",
    standard.PCI_BUS_ID: "a string such as 0000:3b:00.0",
    standard.NUMA_NODE: "an int of 0 or more; omit the attribute if there is no NUMA node",
}

_STANDARD_DOMAIN = standard.PCIE_ROOT.partition("/")[0] + "/"
_Location = tuple[str, str]


def check_types(slices: Iterable[Slice], ordinary: OrdinaryDevices) -> Iterator[Finding]:
    """Report attributes with different types on devices of one driver."""
    seen: dict[tuple[str, tuple[str, str]], dict[str, _Location]] = {}
    checked: set[tuple[str, DeviceShape]] = set()
    for slice_ in slices:
        shapes = ordinary.find_shapes(slice_)
        for i, (device, shape) in enumerate(zip(slice_.devices, shapes, strict=True)):
            if shape is not None:
                if (slice_.driver, shape) in checked:
                    continue
                checked.add((slice_.driver, shape))
            for name, attribute in device.attributes.items():
                key = (slice_.driver, standard.split_name(name, slice_.driver))
                locations = seen.setdefault(key, {})
                for kind in _value_types(attribute):
                    place = (slice_.name, f"spec.devices[{i}].attributes[{name}]")
                    locations.setdefault(kind, place)
    for (driver, (domain, identifier)), locations in seen.items():
        (first, (where, _)), *others = locations.items() if locations else [("", ("", ""))]
        for kind, (name, path) in others:
            message = (
                f"attribute {domain}/{identifier} of {driver} has type {kind} here and {first} in "
                f"slice {where}: a selector or constraint can match only one of them"
            )
            yield codes.ATTRIBUTE_TYPES.at(path, message, object=f"{KIND}/{name}")


def check_names(slices: Iterable[Slice], ordinary: OrdinaryDevices) -> Iterator[Finding]:
    """Report names that are ambiguous or that no expression can read."""
    clear: set[tuple[str, DeviceShape | None]] = set()
    for slice_ in slices:
        shapes = ordinary.find_shapes(slice_)
        for i, (device, shape) in enumerate(zip(slice_.devices, shapes, strict=True)):
            if (slice_.driver, shape) in clear:
                continue
            findings = [*_unclear_names(slice_, i, device)]
            if shape is not None and not findings:
                clear.add((slice_.driver, shape))
            yield from findings


def _unclear_names(slice_: Slice, number: int, device: Device) -> Iterator[Finding]:
    for field in ("attributes", "capacity"):
        published: Mapping[str, object] = getattr(device, field)
        about, at = f"{KIND}/{slice_.name}", f"spec.devices[{number}].{field}"
        yield from _duplicate_names(slice_.driver, published, about, at)
        yield from _extra_slashes(published, about, at)


def _duplicate_names(
    driver: str, published: Mapping[str, object], about: str, path: str
) -> Iterator[Finding]:
    for name in published:
        domain, slash, identifier = name.partition("/")
        if slash and domain == driver and identifier in published:
            message = f"{identifier} has the same meaning; expressions see either of the two values"
            yield codes.NAME_TWICE.at(f"{path}[{name}]", message, object=about)


def _extra_slashes(published: Mapping[str, object], about: str, path: str) -> Iterator[Finding]:
    for name in published:
        if name.count("/") > 1:
            domain, _, identifier = name.partition("/")
            message = f"expressions cannot read {name}: it means {identifier} in domain {domain}"
            yield codes.NAME_SLASHES.at(f"{path}[{name}]", message, object=about)


def check_standard_names(slices: Iterable[Slice]) -> Iterator[Finding]:
    """Report attributes that nearly have the name of a standard one, on their first device."""
    seen = set(_EXAMPLES)
    for slice_ in slices:
        for i, device in enumerate(slice_.devices):
            for name in device.attributes.keys() - seen:
                seen.add(name)
                if not name.startswith(_STANDARD_DOMAIN):
                    continue
                # The domain alone would make all names alike.
                own = name.removeprefix(_STANDARD_DOMAIN)
                standard_names = [each.removeprefix(_STANDARD_DOMAIN) for each in _EXAMPLES]
                if meant := suggest(own, standard_names):
                    path = f"spec.devices[{i}].attributes[{name}]"
                    message = f"{name} of device {device.name} is no standard attribute{meant}"
                    about = f"{KIND}/{slice_.name}"
                    yield codes.STANDARD_ATTRIBUTE_MISSPELT.at(path, message, object=about)


def check_standard_forms(slices: Iterable[Slice]) -> Iterator[Finding]:
    """Report standard attributes that do not have their standard form."""
    standard_ones: dict[str, set[Attribute]] = {name: set() for name in _EXAMPLES}
    for slice_ in slices:
        for i, device in enumerate(slice_.devices):
            for name, accepted in standard_ones.items():
                attribute = device.attributes.get(name)
                if attribute is None or attribute in accepted:
                    continue
                if _is_standard(name, attribute):
                    accepted.add(attribute)
                    continue
                path = f"spec.devices[{i}].attributes[{name}]"
                message = f"{name} of device {device.name} must be {_EXAMPLES[name]}"
                yield codes.STANDARD_ATTRIBUTE.at(path, message, object=f"{KIND}/{slice_.name}")


def _is_standard(name: str, attribute: Attribute) -> bool:
    if name == standard.NUMA_NODE:
        numbers = (attribute.integer,) if attribute.integers is None else attribute.integers
        return all(number is not None and number >= 0 for number in numbers)
    texts = (attribute.string,) if attribute.strings is None else attribute.strings
    return all(text is not None and _FORMS[name].fullmatch(text) for text in texts)


def _value_types(attribute: Attribute) -> list[str]:
    values = zip(_NAMES, astuple(attribute), strict=True)
    return [name for name, value in values if value is not None]
