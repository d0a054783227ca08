"""Answers the one question of this package: what is stuck in these objects, and who holds it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from drawbridge.dra.counted import count_noun
from drawbridge.finding import Finding
from drawbridge.report.stuck import codes
from drawbridge.report.stuck.claims import find_stuck_claims
from drawbridge.report.stuck.context import StuckSearch
from drawbridge.report.stuck.found import Stuck, as_finding, stuck_at
from drawbridge.report.stuck.objects import HangingClaim, HangingNamespace, HangingObjects
from drawbridge.report.stuck.pods import find_stuck_pods, has_devices

# The conditions of a namespace under deletion that say what is left in it, behind a colon.
_REMAINING: Final = {
    "NamespaceFinalizersRemaining": "finalizers",
    "NamespaceContentRemaining": "content",
}
_FAILED: Final = ("NamespaceDeletionContentFailure", "NamespaceDeletionDiscoveryFailure")


def find_stuck(objects: HangingObjects) -> tuple[Stuck, ...]:
    """Return what is stuck, by object."""
    search = StuckSearch(objects)
    stuck = (
        *find_stuck_claims(search),
        *find_stuck_pods(search),
        *_find_stuck_namespaces(search),
        *_find_orphaned_slices(search),
    )
    return tuple(sorted(_without_repeated(stuck), key=lambda each: (each.object, each.code)))


def report_stuck(stuck: Iterable[Stuck]) -> Iterator[Finding]:
    """Yield a finding for each of them."""
    return (as_finding(each, codes.CODES[each.code]) for each in stuck)


def _without_repeated(stuck: Iterable[Stuck]) -> Iterator[Stuck]:
    """Leave out a claim whose pod is stuck for the same reason."""
    stuck = tuple(stuck)
    by_pod = {(each.code, each.object) for each in stuck if each.object.startswith("Pod/")}
    return (
        entry
        for entry in stuck
        if (entry.code, entry.object) in by_pod
        or not any((entry.code, f"Pod/{pod}") in by_pod for pod in entry.pods)
    )


def _find_stuck_namespaces(search: StuckSearch) -> Iterator[Stuck]:
    """Yield namespaces under deletion that still have claims, or pods with devices."""
    objects = search.objects
    old = [e for e in objects.namespaces if search.is_old(e.metadata.deletion_timestamp)]
    if not old:
        return
    claims: dict[str, list[HangingClaim]] = {}
    for claim in objects.claims:
        claims.setdefault(claim.key[0], []).append(claim)
    pods = Counter(each.key[0] for each in objects.pods if has_devices(each))
    for namespace in old:
        name = namespace.metadata.name
        its_claims, its_pods = claims.get(name, ()), pods[name]
        if not (its_claims or its_pods):
            continue
        left = [count_noun(len(its_claims), "claim")] if its_claims else []
        if its_pods:
            left.append(count_noun(its_pods, "pod with devices", "pods with devices"))
        yield stuck_at(
            codes.DELETION_STUCK,
            f"Namespace/{name}",
            f"under deletion, with {' and '.join(left)}",
            _describe_remaining(namespace),
            since=namespace.metadata.deletion_timestamp,
            remedy=(
                "Look at its claims and pods, which are listed here if they are stuck. Do not"
                " remove the finalizer of the namespace: its objects would stay."
            ),
            devices=[result for claim in its_claims for result in claim.results],
        )


def _describe_remaining(namespace: HangingNamespace) -> str:
    """Return what the conditions say is left, or failed; a label of metrics has the beginning."""
    conditions = namespace.status.conditions or ()
    told = {each.type: each.message for each in conditions if each.status == "True"}
    for kind in _FAILED:
        if message := told.get(kind):
            return message
    for kind, what in _REMAINING.items():
        if message := told.get(kind):
            return f"{what}: {message.rpartition(': ')[2]}"
    return "namespace-controller of kube-controller-manager"


def _find_orphaned_slices(search: StuckSearch) -> Iterator[Stuck]:
    for published in search.objects.slices if search.knows("Node") else ():
        node = published.node_name
        if node and node not in search.nodes:
            yield stuck_at(
                codes.NOT_PUBLISHED,
                f"ResourceSlice/{published.name}",
                f"publishes {count_noun(len(published.devices), 'device')} of node {node}, which"
                " does not exist",
                f"driver {published.driver}",
                remedy="Delete the slice once you know that the node does not come back.",
            )
