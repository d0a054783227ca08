"""Reads a Configuration as all processes and commands do.

In addition to the checks of `drawbridge.config`, a target may not contradict what the translation
knows: the names of dialects, and the kind and vendor of known drivers.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from drawbridge.agreement.codes import ACCEPTED_NAMES
from drawbridge.config.accept import accept_configuration, list_names
from drawbridge.config.codes import (
    BRIDGE_NOT_USED,
    DRIVER_OF_OTHER_KIND,
    ENTRY_WITHOUT_EFFECT,
    RESOURCE_NAME_TAKEN,
    TARGET_NOT_PUBLISHED,
)
from drawbridge.config.load import OBJECT
from drawbridge.config.model import Configuration, Placement
from drawbridge.config.string_formats import shape_properties
from drawbridge.config.target import Target
from drawbridge.dra.codes import WRONG_VALUE
from drawbridge.dra.decode_errors import describe_value
from drawbridge.dra.device_quotas import find_capacity_name
from drawbridge.dra.quantity import valid_quantity
from drawbridge.dra.slices import Slice
from drawbridge.facts.families import find_family
from drawbridge.finding import Finding
from drawbridge.translate.legacy.dialects import hami, vgpu, volcano
from drawbridge.translate.legacy.read import find_dialects
from drawbridge.translate.targets.available import MODULES, find_unread, list_capacities

# Of the dialects that read defaults.
_PERCENTAGES: Final = (hami.NAMES.cores, volcano.NAMES.cores)
_MEMORIES: Final = (hami.NAMES.memory, volcano.NAMES.memory)
_SHARED: Final = "the capacity for several claims"


def read_configuration(value: object) -> Configuration | tuple[Finding, ...]:
    """Return the Configuration, or all findings."""
    loaded = accept_configuration(value, ACCEPTED_NAMES)
    if not isinstance(loaded, Configuration):
        return loaded
    checks = (_check_names, _check_defaults, _check_drivers, _check_unread, _check_shapes)
    return tuple(finding for check in checks for finding in check(loaded)) or loaded


def _check_names(configuration: Configuration) -> Iterator[Finding]:
    for path, name in list_names(configuration):
        if dialects := find_dialects(name):
            message = f"{name} has a meaning in the dialect {' and '.join(dialects)}"
            yield RESOURCE_NAME_TAKEN.at(path, message, object=OBJECT)


def _check_defaults(configuration: Configuration) -> Iterator[Finding]:
    units = vgpu.units(configuration.legacy)
    for name, amount in configuration.legacy.defaults.items():
        path, number = f"legacy.defaults[{name}]", amount.value()
        if name in _PERCENTAGES and number > 100:
            message = f"{name} must be from 0 to 100 percent, not {amount}"
            yield WRONG_VALUE.at(path, message, object=OBJECT)
        if name in _MEMORIES:
            unit = units.get(name, vgpu.MEMORY_UNIT)
            for problem, remedy in vgpu.check_units(number, f"{amount}", unit):
                yield WRONG_VALUE.at(path, f"{name} {problem}", object=OBJECT, remedy=remedy)


def _check_drivers(configuration: Configuration) -> Iterator[Finding]:
    for i, target in enumerate(configuration.targets):
        family = find_family(target)
        if family is None:
            continue
        field = "family" if target.family else "driver"
        subject = f"family {target.family}" if target.family else f"{target.driver}"
        vendor = family.vendor
        wrong = (
            (family.kind, target.kind) if family.kind != target.kind else (vendor, target.vendor)
        )
        if wrong[1] and wrong[0] != wrong[1]:
            message = (
                f"{subject} is for {wrong[0] or family.kind} devices, not for {wrong[1]} devices"
            )
            yield DRIVER_OF_OTHER_KIND.at(f"targets[{i}].{field}", message, object=OBJECT)


def _check_unread(configuration: Configuration) -> Iterator[Finding]:
    for i, target in enumerate(configuration.targets):
        for field, reason in find_unread(target):
            message = f"{field} has no effect: {reason}"
            path = f"targets[{i}].{field}"
            yield ENTRY_WITHOUT_EFFECT.at(path, message, object=OBJECT, remedy="Remove the field.")


def _check_shapes(configuration: Configuration) -> Iterator[Finding]:
    for i, entry in enumerate(configuration.fleet):
        capacities = list_capacities(entry.class_, configuration)
        for j, shape in enumerate(entry.expected_shapes):
            for name, value in shape_properties(shape):
                if find_capacity_name(name, capacities) and valid_quantity(value) is None:
                    shown = describe_value(value)
                    message = f"{name} is a capacity, so it must be a quantity, not {shown}"
                    yield WRONG_VALUE.at(f"fleet[{i}].expectedShapes[{j}]", message, object=OBJECT)


def report_not_published(
    configuration: Configuration, slices: Collection[Slice]
) -> Iterator[Finding]:
    """Report what targets read of the devices in these slices and no device has."""
    for i, target in enumerate(configuration.targets):
        driver = f"{target.driver}"
        devices = [device for each in slices if each.driver == driver for device in each.devices]
        shared = [device for device in devices if device.allow_multiple_allocations]
        published = {
            name if "/" in name else f"{driver}/{name}"
            for device in devices
            for name in (*device.attributes, *device.capacity)
        }
        amounts = {
            name if "/" in name else f"{driver}/{name}"
            for device in shared
            for name in device.capacity
        }
        for field, what, names in _list_read(target) if devices else ():
            lacking = sorted(names - (amounts if what == _SHARED else published))
            if lacking:
                listed = ", ".join(name.removeprefix(f"{driver}/") for name in lacking)
                message = f"no device of {driver} publishes {what} {listed}"
                yield TARGET_NOT_PUBLISHED.at(f"targets[{i}].{field}", message, object=OBJECT)


def report_unused_bridge(configuration: Configuration) -> Iterator[Finding]:
    """Report the fields of bridge placement that native placement does not read."""
    if configuration.placement is Placement.BRIDGE:
        return
    default = Configuration()
    fields = {
        "bridge": configuration.bridge != default.bridge,
        "ownedPools": configuration.owned_pools != default.owned_pools,
        "partitions": configuration.partitions != default.partitions,
        "preemption": configuration.preemption != default.preemption,
    }
    for field, is_set in fields.items():
        if is_set:
            message = f"{field} has no effect with placement {configuration.placement}"
            yield BRIDGE_NOT_USED.at(field, message, object=OBJECT)


def _list_read(target: Target) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield each field of a target that names something published: what, and its full names."""
    fields: list[tuple[str, str, Iterable[tuple[str, str]]]] = [
        ("attributes", "the attribute", target.attributes.items()),
        ("capacities", "the capacity", target.capacities.items()),
        ("amounts", _SHARED, target.amounts.items()),
    ]
    family = find_family(target)
    if family is not None:
        vocabulary = MODULES[family.short_name].vocabulary(f"{target.driver}")
        yield "family", f"what family {family.short_name} has:", vocabulary.usual
        fields = fields[2:]
    for field, what, names in fields:
        for key, name in names:
            full = name if "/" in name else f"{target.driver}/{name}"
            yield f"{field}[{key}]", what, frozenset({full})
