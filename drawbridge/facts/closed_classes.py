"""Decides which classes have a closed fleet, as far as the aggregates of the facts show.

Any doubt about any pool counts for every class: admission must not refuse a pod because a driver is
publishing its devices.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from drawbridge.config.model import Fleet
from drawbridge.dra.families import Family
from drawbridge.dra.generations import current_parts, is_complete
from drawbridge.dra.inventory import Inventory
from drawbridge.dra.nodes import Node
from drawbridge.facts.device_counts import ClusterDevices
from drawbridge.facts.fleet import PublishedClass, find_autoscaler, find_silent_node, fleet_verdicts
from drawbridge.facts.model import ClassFacts
from drawbridge.facts.plugin_nodes import describe_left_to_plugin, find_plugin_nodes

INCOMPLETE = "a pool is incomplete"
LEFT_OUT = "there is no memory for a slice"
UNUSED = "no known node can use a device"


def mark_closed_classes(  # noqa: PLR0913, PLR0917  # everything that shows that devices can come
    rows: Iterable[ClassFacts],
    fleet: Iterable[Fleet],
    nodes: Iterable[Node],
    inventory: Inventory,
    cluster: ClusterDevices,
    left_out: int,
    families: Mapping[str, Family],
) -> list[ClassFacts]:
    """Return the rows with `closed` set. `cluster` counts the devices that some node can use.

    `left_out` is the number of slices that exist and are not in the inventory.
    """
    listed, machines = list(rows), list(nodes)
    doubt = LEFT_OUT if left_out else _find_doubt(inventory, cluster)
    published = _find_published(listed, machines, doubt, cluster, families)
    coming = find_autoscaler(machines) or find_silent_node(machines, inventory.slices)
    verdicts = fleet_verdicts(fleet, published, coming)
    return [
        replace(
            listed_class,
            # Aggregates cannot show what expected devices would satisfy.
            closed=verdicts[listed_class.name].closed and not verdicts[listed_class.name].expected,
        )
        for listed_class in listed
    ]


def _find_published(
    rows: Iterable[ClassFacts],
    nodes: Iterable[Node],
    doubt: str,
    cluster: ClusterDevices,
    families: Mapping[str, Family],
) -> Mapping[str, PublishedClass]:
    drivers = {each.node.name: each.drivers for each in cluster.nodes}
    plugins = find_plugin_nodes((each, drivers.get(each.name, ())) for each in nodes)
    return {
        row.name: PublishedClass(
            row.devices,
            doubt,
            describe_left_to_plugin(plugins, row.drivers, row.extended, families),
        )
        for row in rows
    }


def _find_doubt(inventory: Inventory, cluster: ClusterDevices) -> str:
    for pool in inventory.pools:
        for part in current_parts(inventory.published_slices(pool)):
            if not is_complete(part):
                return INCOMPLETE
            if any(cluster.used_devices[each.name] < len(each.devices) for each in part):
                return UNUSED
    return ""
