"""What a step leaves in the models: counts of the cluster, and the pods of each owner."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from drawbridge.audit.model import Expected, PodsOfOwner
from drawbridge.audit.node_groups import Group
from drawbridge.dra.counted import count_noun
from drawbridge.models.cluster import ModelCluster
from drawbridge.models.nodes import find_request
from drawbridge.models.pods import PodKind, Served
from drawbridge.models.undecided import find_undecided


def count_left(
    cluster: ModelCluster, counted: Mapping[str, PodsOfOwner], groups: Iterable[Group]
) -> Expected:
    """Return the counts of a cluster, whose owners have been counted.

    Nodes of which no driver can replace the plugin now have it all the same.
    """
    nodes, groups = cluster.nodes.values(), [*groups]
    replaced = {name for each in groups for name in each.replaced}
    left = (e for e in groups if not e.has_plugin and replaced & e.units.keys())
    return Expected(
        sum(each.on_plugins for each in counted.values()),
        sum(each.on_drivers for each in counted.values()),
        sum(each.waiting for each in counted.values()),
        sum(each.has_plugin for each in nodes) + sum(len(each.nodes) for each in left),
        sum(bool(each.devices) and not each.has_plugin for each in nodes),
        sum(each.either for each in counted.values()),
    )


def find_changed(
    then: Mapping[str, PodsOfOwner], now: Mapping[str, PodsOfOwner]
) -> Iterator[PodsOfOwner]:
    """Yield the owners whose pods have other devices, or none, after a step."""
    for owner in sorted({*then, *now}):
        if then.get(owner) != now.get(owner):
            yield now.get(owner, PodsOfOwner(owner))


def count_owners(plays: Sequence[ModelCluster]) -> Mapping[str, PodsOfOwner]:
    """Count the pods of owners; those of whom the plays differ, or can differ, are either."""
    each_play = [_count(each, find_undecided(each)) for each in plays]
    counts = {}
    for owner, first in _count(plays[0]).items():
        sure = Counter(first)
        for other in each_play:
            sure &= other.get(owner, Counter())
        left = first.total() - sure.total()
        counts[owner] = PodsOfOwner(
            owner, sure[Served.PLUGIN], sure[Served.DRIVER], sure[None], left
        )
    return counts


def _count(
    cluster: ModelCluster, without: Collection[int] = ()
) -> Mapping[str, Counter[Served | None]]:
    """Count the pods of each owner by who serves them; None for those that wait."""
    counts: dict[str, Counter[Served | None]] = {}
    alike = Counter(
        (pod.kind, pod.served if pod.node else None)
        for key, pod in cluster.pods.items()
        if key not in without
    )
    for (number, served), pods in alike.items():
        kind = cluster.kinds[number]
        if kind.needs_devices:
            counted = counts.setdefault(kind.full_owner, Counter())
            if served is not Served.NOBODY:
                counted[served] += pods
    return counts


def find_new_waits(before: ModelCluster, now: ModelCluster) -> Iterator[tuple[PodKind, bool, int]]:
    """Yield of which kind more pods wait than before, whether they are translated, and how many."""
    waited = before.waiting_kinds()
    for (number, is_translated), pods in sorted(now.waiting_kinds().items()):
        if (more := pods - waited[number, is_translated]) > 0:
            yield now.kinds[number], is_translated, more


def describe_new_waits(before: ModelCluster, now: ModelCluster) -> list[str]:
    """Return the pods that wait and did not before, in words."""
    return [
        f"{kind.full_owner} ({count_noun(more, 'pod')}{_say_why(now, kind, translated)})"
        for kind, translated, more in find_new_waits(before, now)
        if kind.needs_devices
    ]


def _say_why(now: ModelCluster, kind: PodKind, translated: bool) -> str:  # noqa: FBT001  # of the key
    """Return why pods of a kind wait, if no node that is left can have them."""
    request = find_request(kind, translated=translated)
    if any(each.allows(request) for each in now.nodes.values()):
        return ""
    return ": its node selector, affinity, tolerations, volumes or devices allow no node"
