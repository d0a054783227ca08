"""The current devices of a pool, independent of a node.

`Inventory.pools_for` returns the part of a pool that a node sees.
"""

from collections.abc import Mapping

import msgspec

from drawbridge.dra.device import CounterSet, Device
from drawbridge.dra.generations import current_parts, is_complete
from drawbridge.dra.inventory import Inventory, PoolID
from drawbridge.dra.slices import Slice


class PublishedPool(msgspec.Struct, frozen=True, eq=False):
    """The devices and counter sets of a pool; the first one with a name counts."""

    generation: int
    slices: tuple[Slice, ...]
    devices: Mapping[str, Device]
    counter_sets: Mapping[str, CounterSet]


def find_published_pool(inventory: Inventory, pool: PoolID) -> PublishedPool | None:
    """Return a pool; None while it is incomplete.

    If slices for several nodes name the pool and do not make one, the slices for the node with its
    name come first: the others may be forged, and add only devices that it lacks.
    """
    parts = sorted(
        current_parts(inventory.published_slices(pool)),
        key=lambda part: (part[0].node_name != pool.name, -part[0].generation),
    )
    if not parts or not is_complete(parts[0]):
        return None
    generation = parts[0][0].generation
    current = tuple([each for part in parts if is_complete(part) for each in part])
    devices: dict[str, Device] = {}
    sets: dict[str, CounterSet] = {}
    for resource_slice in current:
        for device in resource_slice.devices:
            devices.setdefault(device.name, device)
        for counter_set in resource_slice.shared_counters:
            sets.setdefault(counter_set.name, counter_set)
    return PublishedPool(generation, current, devices, sets)
