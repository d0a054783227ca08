"""Whom a drain can harm: pods that wait, or started meanwhile, can be on any node that has room."""

from collections import Counter
from collections.abc import Sequence

from drawbridge.audit.templates import Templates
from drawbridge.models.cluster import ClusterStart, ModelCluster
from drawbridge.models.nodes import find_request
from drawbridge.models.pods import PodKind


def find_failing_jobs(
    cluster: ModelCluster, start: ClusterStart, templates: Templates, nodes: Sequence[str]
) -> list[tuple[str, str]]:
    """Return the Jobs that can fail when nodes are drained, and that can be suspended instead.

    Pods of a Job that started in the play, or wait, can be on these nodes as well as elsewhere.
    """
    alive, near = Counter[str](), dict[str, PodKind]()
    for key, pod in cluster.pods.items():
        kind = cluster.kinds[pod.kind]
        if kind.job is None:
            continue
        alive[kind.full_owner] += 1
        is_known = key < len(start.pods) and start.pods[key].node == pod.node != ""
        request = find_request(kind, translated=pod.is_translated)
        can_be = not is_known and not request.nodes.isdisjoint(nodes)
        if pod.node in nodes or can_be:
            near[kind.full_owner] = kind
    return sorted(
        (kind.namespace, kind.owner)
        for owner, kind in near.items()
        if not cluster.survives(kind, alive[owner])
        and not templates.find(kind.namespace, kind.owner).manager
    )


def may_stop(cluster: ModelCluster, start: ClusterStart, node: str) -> bool:
    """Whether pods that no budget lets go may have started on a node meanwhile."""
    for key, pod in cluster.pods.items():
        kind = cluster.kinds[pod.kind]
        is_known = key < len(start.pods) and start.pods[key].node == pod.node != ""
        if not is_known and cluster.is_bound_by_budget(pod.kind):
            request = find_request(kind, translated=pod.is_translated)
            if node in request.nodes:
                return True
    return False
