"""Which claims are stuck: under deletion, without their pod, never allocated, or lost devices."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from drawbridge.dra.counted import list_some
from drawbridge.names import CLAIM_FINALIZER
from drawbridge.report.stuck import codes
from drawbridge.report.stuck.context import StuckSearch
from drawbridge.report.stuck.found import (
    CLAIM_CONTROLLER,
    GARBAGE_COLLECTOR,
    MOST_NAMES,
    NODE_WRITER,
    RESTART_CONTROLLER,
    Stuck,
    name_finalizers,
    stuck_at,
)
from drawbridge.report.stuck.objects import FINISHED, HangingClaim, HangingPod

_DRIVER: Final = re.compile(r"""device\.driver\s*==\s*["']([\w.-]+)["']""")


def find_stuck_claims(search: StuckSearch) -> Iterator[Stuck]:
    """Yield the claims that do not go on; a claim has at most one reason."""
    for claim in search.objects.claims:
        reason = (
            _find_deletion(claim, search)
            or _find_gone_pod(claim, search)
            or _find_finished_pod(claim, search)
            or _find_lost_devices(claim, search)
            or _find_no_allocation(claim, search)
        )
        if reason is not None:
            yield reason


def _about(claim: HangingClaim) -> str:
    return f"ResourceClaim/{claim.full_name}"


def _list(pods: Sequence[str]) -> str:
    return list_some(pods, MOST_NAMES, "pod")


def _names(claim: HangingClaim) -> tuple[str, ...]:
    return tuple(f"{claim.key[0]}/{each.name}" for each in claim.pods)


def _find_deletion(claim: HangingClaim, search: StuckSearch) -> Stuck | None:
    since = claim.metadata.deletion_timestamp
    if not search.is_old(since):
        return None
    foreign = [each for each in claim.metadata.finalizers or () if each != CLAIM_FINALIZER]
    held_by, remedy = CLAIM_CONTROLLER, RESTART_CONTROLLER
    if foreign:
        held_by = name_finalizers(foreign, claim.metadata.finalizers_left_out)
        remedy = codes.DELETION_STUCK.remedy
    elif any(_is_used(claim, each.name, each.uid, search) for each in claim.pods):
        # It ends with its pods; those that do not end are stuck themselves.
        return None
    gone = [each.name for each in claim.pods]
    message = f"under deletion, and pod {_list(gone)} uses it no more" if gone else ""
    return stuck_at(
        codes.DELETION_STUCK,
        _about(claim),
        message or "under deletion",
        held_by,
        since=since,
        remedy=remedy,
        pods=_names(claim),
        devices=claim.results,
    )


def _is_used(claim: HangingClaim, name: str, uid: str, search: StuckSearch) -> bool:
    """Whether a pod exists and has not ended; True if that is not known."""
    namespace = claim.key[0]
    if not search.has_pod(namespace, name, uid):
        return False
    pod = search.pods.get((namespace, name))
    return pod is None or pod.status.phase not in FINISHED


def _find_gone_pod(claim: HangingClaim, search: StuckSearch) -> Stuck | None:
    namespace, owner = claim.key[0], claim.owner_pod
    gone = [e.name for e in claim.pods if not search.has_pod(namespace, e.name, e.uid)]
    held_by = CLAIM_CONTROLLER
    if not gone and owner and not search.has_pod(namespace, owner.name, owner.uid):
        gone, held_by = [owner.name], GARBAGE_COLLECTOR
    if not gone:
        return None
    return stuck_at(
        codes.CONSUMER_GONE,
        _about(claim),
        f"pod {_list(gone)} is gone",
        held_by,
        remedy=RESTART_CONTROLLER,
        pods=tuple(f"{namespace}/{each}" for each in gone),
        devices=claim.results,
    )


def _find_finished_pod(claim: HangingClaim, search: StuckSearch) -> Stuck | None:
    pods = [search.pods.get(key) for key in _keys(claim)]
    ended = [each for each in pods if each and each.status.phase in FINISHED]
    if not ended or len(ended) < len(pods):
        return None
    times = sorted(each.finished_at or "" for pod in ended for each in pod.ended)
    if not (times and search.is_old(times[-1])):
        return None
    return stuck_at(
        codes.NEVER_RELEASED,
        _about(claim),
        f"all its pods have ended: {_list([each.metadata.name for each in ended])}",
        CLAIM_CONTROLLER,
        since=times[-1],
        remedy=RESTART_CONTROLLER,
        pods=_names(claim),
        devices=claim.results,
    )


def _find_lost_devices(claim: HangingClaim, search: StuckSearch) -> Stuck | None:
    lost = [each for each in claim.results if search.is_lost(each, claim.node)]
    if not lost:
        return None
    devices = list_some([*map(str, lost)], MOST_NAMES, "device")
    drivers = ", ".join(sorted({each.driver for each in lost}))
    nodes = {search.pods[key].spec.node_name for key in _keys(claim) if key in search.pods}
    where = f" on node {', '.join(sorted(nodes))}" if any(nodes) else ""
    return stuck_at(
        codes.NOT_PUBLISHED,
        _about(claim),
        f"{devices} {'is' if len(lost) == 1 else 'are'} not published",
        f"driver {drivers}{where}",
        pods=_names(claim),
        devices=lost,
    )


def _keys(claim: HangingClaim) -> Iterator[tuple[str, str]]:
    return ((claim.key[0], each.name) for each in claim.pods)


# --- claims without an allocation ----------------------------------------------------------------


def _find_no_allocation(claim: HangingClaim, search: StuckSearch) -> Stuck | None:
    """Return why a claim of a pod will have no devices. One without a pod waits for its first."""
    waiting = None if claim.status.allocation else search.waiting.get(claim.key)
    if waiting is None or not search.is_old(_find_since(claim, waiting.first[0])):
        return None
    names = tuple(each.full_name for each in waiting.first)
    missing = _find_missing(claim, search)
    message, held_by, remedy, pod = "", "", "", waiting.first[0]
    if waiting.bound:
        pod = waiting.bound
        message = f"pod {pod.metadata.name} has a node, but no scheduler allocated its claim"
        held_by = NODE_WRITER
        remedy = "Delete the pod and create it without spec.nodeName."
    elif missing:
        message, held_by = missing, "nobody"
    elif waiting.untried:
        pod = waiting.untried
        message = f"no scheduler has tried pod {pod.metadata.name}"
        held_by = f"scheduler {pod.spec.scheduler_name or 'default-scheduler'}"
    else:
        return None
    since, about = _find_since(claim, pod), _about(claim)
    return stuck_at(
        codes.NEVER_ALLOCATED, about, message, held_by, since=since, remedy=remedy, pods=names
    )


def _find_since(claim: HangingClaim, pod: HangingPod) -> str:
    """Return since when a claim and a pod that names it both exist."""
    return max(each.metadata.creation_timestamp or "" for each in (claim, pod))


def _find_missing(claim: HangingClaim, search: StuckSearch) -> str:
    """Return which class or driver does not exist; empty if none is known to be missing."""
    classes = search.objects.classes
    for name in claim.classes if search.knows("DeviceClass") else ():
        if name not in classes:
            return f"DeviceClass {name} does not exist"
        drivers = _DRIVER.findall(classes[name])
        if search.knows("ResourceSlice") and len(drivers) == 1 and drivers[0] not in search.drivers:
            return f"no node has driver {drivers[0]} of DeviceClass {name}"
    return ""
