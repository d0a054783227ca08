"""What can be translated or moved at once: pods, the devices for them, and who can restart."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from drawbridge.audit.trials import Namespaces
from drawbridge.models.cluster import ModelCluster
from drawbridge.models.nodes import ModelNode, find_request
from drawbridge.models.pods import PodKind, Served

_SLACK: Final = 1e-6


def find_room(cluster: ModelCluster) -> frozenset[str]:
    """Return the namespaces for any pod of which drivers have free devices."""
    most: dict[str, float] = {}
    for node in cluster.nodes.values():
        for name, number in node.devices.items() if not node.is_cordoned else ():
            most[name] = max(most.get(name, 0), number)
    return frozenset(
        kind.namespace
        for kind in cluster.kinds
        if kind.translated is not None
        and all(most.get(e, 0) + _SLACK >= n for e, n in kind.translated.devices.items())
    )


def count_pods_to_translate(cluster: ModelCluster) -> Counter[str]:
    """Count by namespace the pods that ask for units, and would have claims if created again."""
    counted = Counter[str]()
    for pod in cluster.pods.values():
        kind = cluster.kinds[pod.kind]
        if kind.translated is not None and not pod.is_translated:
            counted[kind.namespace] += 1
    return counted


def find_restartable(cluster: ModelCluster, namespace: str) -> tuple[str, ...]:
    """Return the owners whose pods get claims by a restart, if it can end."""
    without = {each.kind for each in cluster.pods.values() if not each.is_translated}
    owners = dict[str, None]()
    for number in sorted(without):
        kind = cluster.kinds[number]
        rolls = kind.can_restart and not kind.is_ending
        if kind.namespace == namespace and kind.translated is not None and rolls:
            owners[kind.full_owner] = None
    room = DriverRoom(cluster, namespace) if owners else None
    return tuple(e.removeprefix(f"{namespace}/") for e in owners if room and room.can_have(e))


class DriverRoom:
    """The devices of drivers that pods of a namespace can have when all of them are new."""

    def __init__(self, cluster: ModelCluster, namespace: str) -> None:
        self._cluster = cluster
        self._devices = {
            name: Counter(node.devices)
            for name, node in cluster.nodes.items()
            if node.devices and node.is_ready and not node.is_cordoned
        }
        for pod in cluster.pods.values():
            kind = cluster.kinds[pod.kind]
            is_here = pod.served is Served.DRIVER and pod.node in self._devices
            if is_here and kind.namespace == namespace:
                held = find_request(kind, translated=pod.is_translated).devices
                self._devices[pod.node].update(held)

    def can_have(self, owner: str) -> bool:
        """Whether there are as many as the pods of an owner ask for. Other resources can lack."""
        kinds = self._cluster.kinds_of(owner)
        alike = Counter(each.kind for each in self._cluster.pods.values() if each.kind in kinds)
        return any(self._count(self._cluster.kinds[e], n) >= n for e, n in alike.items())

    def _count(self, kind: PodKind, most: int) -> int:
        request = kind.translated
        if request is None or not request.devices.keys() <= self._cluster.offered():
            return most
        number = 0
        for name, has in self._devices.items():
            if self._cluster.nodes[name].allows(request):
                fits = (has[each] / n for each, n in request.devices.items() if n)
                number += int(min(fits, default=most) + _SLACK)
                if number >= most:
                    break
        return number


def is_served(cluster: ModelCluster, namespaces: Namespaces, namespace: str) -> bool:
    """Whether a driver has devices of the kind that pods of a namespace ask for, where they may be.

    Other pods can have all of them.
    """
    kinds = [each for each in cluster.kinds if each.namespace == namespace and each.translated]
    if not kinds:
        return namespace in namespaces.idle and bool(cluster.offered())
    return any(_can_use(each, kind) for kind in kinds for each in cluster.nodes.values())


def _can_use(node: ModelNode, kind: PodKind) -> bool:
    request = find_request(kind, translated=True)
    has_devices = not node.has_plugin and request.devices.keys() <= node.devices.keys()
    return node.allows(request) and has_devices and node.is_ready


def has_room_for(cluster: ModelCluster, drained: Sequence[str]) -> bool:
    """Whether other nodes can have as many free devices as pods of these nodes ask for.

    Counts devices of all kinds together, so that more can be said to fit than do.
    """
    asked = sum(
        sum(kind.units.values() or kind.asked.devices.values())
        for name in drained
        for pod in cluster.on_node(name)
        if (kind := cluster.kinds[pod.kind]).owner_kind != "DaemonSet"
    )
    free = 0.0
    for name, node in cluster.nodes.items():
        if name not in drained and node.offers_any:
            free += sum(number for key, number in node.free.items() if "/" in key)
            free += sum(node.devices.values())
    return asked <= free + 1
