"""What can be translated or moved at once: pods, the devices for them, and who can restart."""

from collections import Counter
from collections.abc import Sequence

from drawbridge.audit.trials import Namespaces
from drawbridge.models.cluster import ModelCluster
from drawbridge.models.undecided import find_undecided


def has_room(cluster: ModelCluster, namespace: str) -> bool:
    """Whether drivers have free devices for any pod of a namespace that has no claims."""
    most = Counter[str]()
    for node in cluster.nodes.values():
        if not node.is_cordoned:
            most |= Counter({name: int(n * 1_000) for name, n in node.devices.items()})
    return any(
        all(most[name] >= int(n * 1_000) for name, n in kind.translated.devices.items())
        for kind in cluster.kinds
        if kind.namespace == namespace and kind.translated is not None
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
    """Return the owners whose pods get claims by a restart.

    None while pods of others may have the devices that these need.
    """
    if find_undecided(cluster):
        return ()
    pods = cluster.pods.values()
    kinds = [cluster.kinds[n] for n in sorted({e.kind for e in pods if not e.is_translated})]
    owners = (
        kind.owner
        for kind in kinds
        if kind.namespace == namespace and kind.translated is not None and not kind.is_ending
        if kind.rollout is not None and kind.rollout.can_restart
    )
    return tuple(dict.fromkeys(owners))


def is_served(cluster: ModelCluster, namespaces: Namespaces, namespace: str) -> bool:
    """Whether drivers have devices of the kind that pods of a namespace ask for."""
    kinds = [each for each in cluster.kinds if each.namespace == namespace and each.translated]
    offered = cluster.offered()
    if not kinds:
        return namespace in namespaces.idle and bool(offered)
    return any(e.translated and e.translated.devices.keys() <= offered for e in kinds)


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
