"""Finds devices that several drivers publish, which the scheduler takes for several devices."""

from collections.abc import Iterator, Sequence
from typing import Final

from drawbridge.dra.attributes import PCI_BUS_ID
from drawbridge.dra.counted import list_some
from drawbridge.dra.slices import KIND, Slice
from drawbridge.finding import Finding
from drawbridge.judge.slices import codes
from drawbridge.judge.slices.pools import list_current

_MAX_NAMES: Final = 10
# The driver, the slice and the path of an attribute.
_Place = tuple[str, str, str]


def find_published_twice(slices: Sequence[Slice]) -> Iterator[Finding]:
    """Report devices of several drivers, in what no other slice replaces."""
    return check_published_twice(list_current(slices))


def check_published_twice(slices: Sequence[Slice]) -> Iterator[Finding]:
    """Report devices with one UUID or PCI address on one node; one finding for these drivers."""
    places: dict[tuple[str, str], dict[str, _Place]] = {}
    for node, identity, place in _list_identities(slices):
        places.setdefault((node, identity), {}).setdefault(place[0], place)
    nodes: dict[tuple[str, ...], dict[str, _Place]] = {}
    for (node, _), by_driver in places.items():
        if len(by_driver) > 1:
            names = tuple(sorted(by_driver))
            nodes.setdefault(names, {}).setdefault(node, by_driver[names[0]])
    for drivers, by_node in sorted(nodes.items()):
        _, about, path = by_node[min(by_node)]
        message = (
            f"drivers {' and '.join(drivers)} publish the same devices on"
            f" {list_some(sorted(by_node), _MAX_NAMES, 'node')}: the scheduler gives each to"
            " several pods"
        )
        yield codes.DEVICE_PUBLISHED_TWICE.at(path, message, object=f"{KIND}/{about}")


def _list_identities(slices: Sequence[Slice]) -> Iterator[tuple[str, str, _Place]]:
    drivers: dict[str, set[str]] = {}
    for slice_ in slices:
        for name in {slice_.node_name or each.node_name or "" for each in slice_.devices}:
            drivers.setdefault(name, set()).add(slice_.driver)
    for slice_ in slices:
        for i, device in enumerate(slice_.devices):
            node = slice_.node_name or device.node_name or ""
            # One driver alone cannot be the second, and its identities are many.
            if not node or len(drivers[node]) < 2:
                continue
            for name, value in device.attributes.items():
                if value.string and (name == PCI_BUS_ID or name.rpartition("/")[2] == "uuid"):
                    path = f"spec.devices[{i}].attributes[{name}]"
                    yield node, value.string, (slice_.driver, slice_.name, path)
