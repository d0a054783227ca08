"""Whom a drain can harm, on whatever nodes the scheduler has put pods that started meanwhile."""

from collections import Counter
from collections.abc import Sequence

from drawbridge.audit.templates import Templates
from drawbridge.models.cluster import ModelCluster
from drawbridge.models.pods import PodKind
from drawbridge.models.undecided import find_possible


def find_failing_jobs(
    plays: Sequence[ModelCluster],
    templates: Templates,
    nodes: Sequence[str],
    *,
    obeys_budgets: bool,
) -> list[tuple[str, str]]:
    """Return the Jobs that can fail when nodes are drained, and that can be suspended instead.

    Pods of a Job that a scheduler places can be on these nodes as well as elsewhere. The first of
    the plays has the pods; how often they have ended already is the most of all plays. Only an
    eviction, which asks budgets, can be one that a Job ignores.
    """
    cluster = plays[0]
    alive, near = Counter[str](), dict[str, PodKind]()
    jobs = [number for number, kind in enumerate(cluster.kinds) if kind.job is not None]
    for pod in (cluster.pods[key] for key in cluster.of_kinds(jobs)):
        kind = cluster.kinds[pod.kind]
        alive[kind.full_owner] += 1
        if pod.node in nodes:
            near[kind.full_owner] = kind
    for key in find_possible(cluster, nodes, jobs):
        kind = cluster.kinds[cluster.pods[key].kind]
        near[kind.full_owner] = kind
    return sorted(
        (kind.namespace, kind.owner)
        for owner, kind in near.items()
        if not all(each.survives(kind, alive[owner], evicted=obeys_budgets) for each in plays)
        and not templates.find(kind.namespace, kind.owner).manager
    )
