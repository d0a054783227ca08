"""Does a partition type say what a device costs? The promise behind partitionTypeAttribute.

Every partitionable device of a slice that names such an attribute carries it, and devices of one
type draw the same amounts, from whichever counter sets.
"""

from collections.abc import Iterable, Iterator

from dra.attributes import find_attribute
from dra.device import Device
from dra.finding import Finding
from dra.slices import KIND, Slice
from judge import codes


def check_partition_types(slices: Iterable[Slice]) -> Iterator[Finding]:
    """Tell of partitions without a type, and of types that cost different amounts."""
    for each in slices:
        name = each.partition_type_attribute
        if name is not None:
            yield from _types(each, name)


def _types(each: Slice, name: str) -> Iterator[Finding]:
    first: dict[str, Device] = {}
    about = f"{KIND}/{each.name}"
    for i, device in enumerate(each.devices):
        if not device.consumes_counters:
            continue
        path = f"spec.devices[{i}]"
        attribute = find_attribute(device, each.driver, name)
        if attribute is None or attribute.string is None:
            message = f"device {device.name} has no string {name}, which names its partition type"
            yield codes.PARTITION_TYPE_MISSING.at(f"{path}.attributes", message, object=about)
            continue
        other = first.setdefault(attribute.string, device)
        if _cost(other) != _cost(device):
            message = (
                f"device {device.name} draws other amounts than {other.name} of the same type "
                f"{attribute.string}"
            )
            yield codes.PARTITION_TYPE_COST.at(f"{path}.consumesCounters", message, object=about)


def _cost(device: Device) -> list[list[tuple[str, int]]]:
    """Give what a device draws, whatever the names of the sets, in an order to compare by."""
    return sorted(
        sorted((name, counter.value.nanos()) for name, counter in use.counters.items())
        for use in device.consumes_counters
    )
