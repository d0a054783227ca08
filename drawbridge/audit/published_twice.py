"""Says which nodes publish one physical device by the slices of several drivers."""

from collections.abc import Iterator
from typing import Final

from drawbridge.audit.objects import AuditedObjects
from drawbridge.dra.attributes import PCI_BUS_ID
from drawbridge.dra.counted import list_some

_MAX_NAMES: Final = 10


def note_published_twice(objects: AuditedObjects) -> Iterator[str]:
    """Yield a note for drivers that publish the same devices: the scheduler counts each twice."""
    publishing: dict[tuple[str, str], set[str]] = {}
    for published in objects.slices:
        for device in published.devices if published.node_name else ():
            for name, value in device.attributes.items():
                if value.string and (name == PCI_BUS_ID or name.rpartition("/")[2] == "uuid"):
                    key = published.node_name or "", value.string
                    publishing.setdefault(key, set()).add(published.driver)
    nodes: dict[tuple[str, ...], set[str]] = {}
    for (node, _), drivers in publishing.items():
        if len(drivers) > 1:
            nodes.setdefault(tuple(sorted(drivers)), set()).add(node)
    for drivers_of_one, names in sorted(nodes.items()):
        yield (
            f"Drivers {' and '.join(drivers_of_one)} publish the same devices on"
            f" {list_some(sorted(names), _MAX_NAMES, 'node')}: the scheduler gives each to two"
            " pods. Let only one of them run there."
        )
