"""What nodes offer after the migration, and how much of it the pods hold that run there now."""

from collections import Counter
from collections.abc import Collection

from drawbridge.audit.model import GroupCapacity
from drawbridge.audit.node_groups import Group
from drawbridge.models.cluster import ModelCluster
from drawbridge.models.nodes import find_request


def find_capacities_after(
    group: Group, cluster: ModelCluster, kept: Collection[str]
) -> list[GroupCapacity]:
    """Return what a group that gets a driver offers then; `kept` nodes keep their plugin.

    `cluster` is the cluster before the migration. Of the names that a plugin offers, those that the
    driver does not replace stay.
    """
    offered, held = Counter[str](), Counter[str]()
    devices = dict[str, float]()
    for node in group.nodes:
        stays = node.name in kept
        names = group.units.keys() if stays else group.units.keys() - group.replaced
        offered.update({name: group.units[name] for name in names})
        offered.update(group.now.classes if stays else group.after.classes)
        for pod in cluster.on_node(node.name):
            kind = cluster.kinds[pod.kind]
            request = find_request(kind, translated=pod.is_translated or not stays)
            held.update({name: request.amounts[name] for name in names & request.amounts.keys()})
            # What a class serves comes from the plugin as long as it is there.
            asked = {} if stays and kind.by_class else request.devices
            for name, number in asked.items():
                devices[name] = devices.get(name, 0) + number
    return [
        GroupCapacity(name, offered[name], round(held[name] + devices.get(name, 0), 3))
        for name in sorted({*offered, *devices}, key=lambda each: (each not in group.units, each))
        if offered[name] or devices.get(name)
    ]
