"""Decides which classes have a closed fleet, as far as the aggregates of the facts show.

Any doubt about any pool counts for every class: admission must not refuse a pod because a driver is
publishing its devices.
"""

from collections.abc import Collection, Iterable

from config.model import Fleet
from dra.inventory import Inventory
from dra.nodes import Node
from facts.fleet import PublishedClass, find_autoscaler, fleet_verdicts
from facts.model import ClassFacts

INCOMPLETE = "a pool is incomplete"
UNUSED = "a slice is for no known node"


def mark_closed_classes(
    rows: Iterable[ClassFacts],
    fleet: Iterable[Fleet],
    nodes: Iterable[Node],
    inventory: Inventory,
    used_slices: Collection[str],
) -> list[ClassFacts]:
    """Return the rows with `closed` set. `used_slices` names the slices that some node can use."""
    listed, doubt = list(rows), _find_doubt(inventory, used_slices)
    published = {each.name: PublishedClass(each.devices, doubt) for each in listed}
    verdicts = fleet_verdicts(fleet, published, find_autoscaler(nodes))
    return [
        ClassFacts(
            each.name,
            each.extended,
            each.drivers,
            each.devices,
            # Aggregates cannot show what expected devices would satisfy.
            closed=verdicts[each.name].closed and not verdicts[each.name].expected,
        )
        for each in listed
    ]


def _find_doubt(inventory: Inventory, used_slices: Collection[str]) -> str:
    for pool in inventory.pools:
        published = inventory.published_slices(pool)
        newest = max(each.generation for each in published)
        current = [each for each in published if each.generation == newest]
        if any(each.slice_count != len(current) for each in current):
            return INCOMPLETE
        if any(each.devices and each.name not in used_slices for each in current):
            return UNUSED
    return ""
