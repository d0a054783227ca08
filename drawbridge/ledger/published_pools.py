"""The newest complete generation of a pool, independent of a node.

`Inventory.pools_for` returns the part of a pool that a node sees.
"""

from collections.abc import Mapping

import msgspec

from drawbridge.dra.device import CounterSet, Device
from drawbridge.dra.inventory import Inventory, PoolID
from drawbridge.dra.slices import Slice


class PublishedPool(msgspec.Struct, frozen=True, eq=False):
    """The devices and counter sets of a pool; the first one with a name counts."""

    generation: int
    slices: tuple[Slice, ...]
    devices: Mapping[str, Device]
    counter_sets: Mapping[str, CounterSet]


def find_published_pool(inventory: Inventory, pool: PoolID) -> PublishedPool | None:
    """Return a pool; None while its newest generation is incomplete."""
    slices = inventory.published_slices(pool)
    generation = max((each.generation for each in slices), default=0)
    newest = [each for each in slices if each.generation == generation]
    if not newest or len(newest) != newest[0].slice_count:
        return None
    devices: dict[str, Device] = {}
    sets: dict[str, CounterSet] = {}
    for resource_slice in newest:
        for device in resource_slice.devices:
            devices.setdefault(device.name, device)
        for counter_set in resource_slice.shared_counters:
            sets.setdefault(counter_set.name, counter_set)
    return PublishedPool(generation, tuple(newest), devices, sets)
