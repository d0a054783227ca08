"""Which pods another scheduler could have put elsewhere, so that others give them devices.

A pod that a scheduler has placed can be on any node that had room for it, if other pods that were
placed are elsewhere: a node without these is a loose one.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from drawbridge.models.nodes import ModelNode
from drawbridge.models.pods import PodKind, Served

if TYPE_CHECKING:
    from drawbridge.models.cluster import ModelCluster


def _loosen(cluster: "ModelCluster", names: Iterable[str]) -> dict[str, ModelNode]:
    """Return nodes without the pods that a scheduler has placed there."""
    loose = {}
    for name in names:
        if name in cluster.nodes:
            node = loose[name] = cluster.nodes[name].copy()
            for pod in cluster.on_node(name):
                if pod.is_placed:
                    node.hold(cluster.kinds[pod.kind], pod, -1)
    return loose


def _can_serve(
    kind: PodKind, nodes: Mapping[str, ModelNode], served: Served, *, translated: bool = False
) -> bool:
    """Whether any of the nodes that a pod may have would serve it in this way."""
    return any(node.serve(kind, translated=translated) is served for node in nodes.values())


def doubt_drained(cluster: "ModelCluster", drained: Collection[str]) -> set[int]:
    """Return the pods that may not be on these nodes, although the play has them there.

    Of those elsewhere that may be there, it is not known who gives them devices afterwards.
    """
    placed = [
        (key, pod, kind)
        for key, pod in cluster.pods.items()
        if pod.is_placed and pod.served is Served.PLUGIN
        and _changes(cluster, kind := cluster.kinds[pod.kind])
    ]  # fmt: skip
    if not placed:
        return set()
    here = _loosen(cluster, drained)
    left = (name for name, each in cluster.nodes.items() if each.has_plugin)
    elsewhere = _loosen(cluster, (name for name in left if name not in drained))
    answers: dict[tuple[int, bool], bool] = {}
    doubtful = set[int]()
    for key, pod, kind in placed:
        is_here = pod.node in drained
        if (pod.kind, is_here) not in answers:
            others = elsewhere if is_here else here
            answers[pod.kind, is_here] = _can_serve(kind, others, Served.PLUGIN)
        if answers[pod.kind, is_here]:
            doubtful.add(key)
            cluster.pods[key] = pod._replace(has_other_source=True)
    return doubtful


def _changes(cluster: "ModelCluster", kind: PodKind) -> bool:
    """Whether pods of a kind can have another source when they are created again."""
    return kind.by_class or (kind.translated is not None and kind.namespace in cluster.enforced)


def find_undecided(cluster: "ModelCluster") -> set[int]:
    """Return the pods that another scheduler can put where others give them devices."""
    placed = {key: pod for key, pod in cluster.pods.items() if pod.is_placed}
    if not placed:
        return set()
    loose = _loosen(cluster, (name for name, each in cluster.nodes.items() if each.offers_any))
    both: dict[int, bool] = {}
    undecided = set[int]()
    for key, pod in placed.items():
        kind = cluster.kinds[pod.kind]
        if not (kind.by_class or pod.has_other_source) or pod.name:
            continue
        if pod.kind not in both:
            both[pod.kind] = _can_serve(kind, loose, Served.PLUGIN) and (
                not kind.by_class or _can_serve(kind, loose, Served.DRIVER)
            )
        if both[pod.kind]:
            undecided.add(key)
    return undecided
