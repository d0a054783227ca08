"""Checks partition types: the attribute that partitionTypeAttribute names.

Every partitionable device of the slice must have the attribute. Devices of one type must consume
the same amounts, from any counter sets.
"""

from collections.abc import Iterable, Iterator

from drawbridge.dra.attributes import find_attribute
from drawbridge.dra.device import Device
from drawbridge.dra.slices import KIND, Slice
from drawbridge.finding import Finding
from drawbridge.judge.slices import codes


def check_partition_types(slices: Iterable[Slice]) -> Iterator[Finding]:
    """Report partitions without a type, and types with different amounts."""
    for slice_ in slices:
        name = slice_.partition_type_attribute
        if name is not None:
            yield from _check_types(slice_, name)


def _check_types(slice_: Slice, name: str) -> Iterator[Finding]:
    first: dict[str, Device] = {}
    about = f"{KIND}/{slice_.name}"
    for i, device in enumerate(slice_.devices):
        if not device.consumes_counters:
            continue
        path = f"spec.devices[{i}]"
        attribute = find_attribute(device, slice_.driver, name)
        if attribute is None or attribute.string is None:
            message = f"device {device.name} has no string attribute {name} with its partition type"
            yield codes.PARTITION_TYPE_MISSING.at(f"{path}.attributes", message, object=about)
            continue
        other = first.setdefault(attribute.string, device)
        if _consumption(other) != _consumption(device):
            message = (
                f"device {device.name} consumes other amounts than {other.name} of the same type "
                f"{attribute.string}"
            )
            yield codes.PARTITION_TYPE_COST.at(f"{path}.consumesCounters", message, object=about)


def _consumption(device: Device) -> list[list[tuple[str, int]]]:
    """Return what a device consumes, without the names of the sets, in a comparable order."""
    return sorted(
        sorted((name, counter.value.nanos()) for name, counter in use.counters.items())
        for use in device.consumes_counters
    )
