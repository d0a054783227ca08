"""What a step leaves in the models: counts of the cluster, and the pods of each owner."""

from collections.abc import Collection, Iterator, Mapping

from drawbridge.audit.model import Expected, PodsOfOwner
from drawbridge.models.cluster import ModelCluster
from drawbridge.models.nodes import find_request
from drawbridge.models.pods import ModelPod, PodKind, Served


def count_left(cluster: ModelCluster) -> Expected:
    """Return the counts of a cluster as it is now."""
    nodes, counted = cluster.nodes.values(), [*_count_owners(cluster).values()]
    return Expected(
        sum(each.on_plugins for each in counted),
        sum(each.on_drivers for each in counted),
        sum(each.waiting for each in counted),
        sum(each.has_plugin for each in nodes),
        sum(bool(each.devices) and not each.has_plugin for each in nodes),
        sum(each.either for each in counted),
    )


def find_changed(before: ModelCluster, after: ModelCluster) -> Iterator[PodsOfOwner]:
    """Yield the owners whose pods have other devices, or none, after a step."""
    then, now = _count_owners(before), _count_owners(after, _find_contested(after))
    for owner in sorted({*then, *now}):
        if then.get(owner) != now.get(owner):
            yield now.get(owner, PodsOfOwner(owner))


def _count_owners(
    cluster: ModelCluster, contested: Collection[int] = ()
) -> Mapping[str, PodsOfOwner]:
    counts: dict[str, list[int]] = {}
    for key, pod in cluster.pods.items():
        kind = cluster.kinds[pod.kind]
        if kind.needs_devices:
            place = 3 if key in contested else _find_place(cluster, pod)
            counted = counts.setdefault(kind.full_owner, [0, 0, 0, 0])
            if place is not None:
                counted[place] += 1
    return {owner: PodsOfOwner(owner, *each) for owner, each in counts.items()}


def _find_contested(cluster: ModelCluster) -> set[int]:
    """Return the pods that wait for devices which pods in the play have got, and these pods."""
    waiting = {
        key: frozenset().union(*_allowed(cluster, cluster.pods[key]))
        for key in cluster.waiting
        if not cluster.kinds[cluster.pods[key].kind].is_gated
    }
    wanted = frozenset[str]().union(*waiting.values())
    rivals = {
        key
        for key, pod in cluster.pods.items()
        if pod.has_other_places and pod.node in wanted and cluster.kinds[pod.kind].needs_devices
    }
    held = {cluster.pods[key].node for key in rivals}
    return rivals.union(key for key, nodes in waiting.items() if not nodes.isdisjoint(held))


def _allowed(cluster: ModelCluster, pod: ModelPod) -> tuple[frozenset[str], frozenset[str]]:
    request = find_request(cluster.kinds[pod.kind], translated=pod.is_translated)
    return request.nodes, request.moved_nodes


def _find_place(cluster: ModelCluster, pod: ModelPod) -> int | None:
    """Return the field of the counts in which a pod is; None if it runs without devices."""
    if not pod.node:
        return 2
    if cluster.has_other_source(pod):
        return 3
    return {Served.PLUGIN: 0, Served.DRIVER: 1}.get(pod.served)


def find_new_waits(before: ModelCluster, now: ModelCluster) -> Iterator[tuple[PodKind, bool, int]]:
    """Yield of which kind more pods wait than before, whether they are translated, and how many."""
    waited = before.waiting_kinds()
    for (number, is_translated), pods in sorted(now.waiting_kinds().items()):
        if (more := pods - waited[number, is_translated]) > 0:
            yield now.kinds[number], is_translated, more
