"""Moves members of groups that get no claim to the Drawbridge scheduler, in bridge placement.

A scheduler schedules a gang only if it has all members. The other members may request devices and
move, for example the workers of a launcher. Whether they do cannot be seen in one pod, so the group
alone decides. A pod with another scheduler than the default one keeps it, and so does one with a
name that only the default scheduler allocates.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from drawbridge.documents.paths import format_path, get_value
from drawbridge.documents.values import Value
from drawbridge.dra.counted import count_noun, list_some
from drawbridge.finding import Finding
from drawbridge.pod_groups import Member, PodGroup, find_group, find_split_gangs
from drawbridge.translate.changes.codes import GANG_SPLIT, SCHEDULER_OURS
from drawbridge.translate.changes.patch import Patch
from drawbridge.translate.changes.scheduler import (
    DEFAULT,
    OURS,
    SCHEDULER,
    is_default_scheduler,
    use_our_scheduler,
)

_MAX_NAMES: Final = 3
_OWN_OR_LEAVE: Final = (
    "Add entries for all drivers to `ownedPools`, set schedulerName of all members to drawbridge, "
    "or label the namespace with drawbridge.dev/placement=native."
)
_CLAIMS_OR_LEAVE: Final = (
    "Request the devices by ResourceClaims, or label the namespace with "
    "drawbridge.dev/placement=native."
)


def moves(pod: Value) -> bool:
    """Whether a pod is a member of a group and has the default scheduler."""
    return is_default_scheduler(get_value(pod, SCHEDULER)) and find_group(pod) is not None


def move_pod(
    patch: Patch, unserved: Collection[Finding], *, requests_devices: bool
) -> Iterator[Finding]:
    """Set the scheduler of a member, unless only the default one allocates a name: `unserved`.

    A member without devices also tolerates the taint of owned nodes. A member whose devices a
    device plugin serves does not, because owned nodes are for claims. Raises EditError if a field
    has the wrong type.
    """
    if unserved:
        yield from (*unserved, *report_left_member(patch.pod, unserved))
        return
    if requests_devices:
        patch.put(SCHEDULER, OURS)
        moved = SCHEDULER_OURS.at(format_path(SCHEDULER), f"set to {OURS}")
    else:
        moved = use_our_scheduler(patch)
    yield SCHEDULER_OURS.at(moved.path, f"{moved.message}, for the group of the pod")


def report_left_member(pod: Value, unserved: Collection[Finding]) -> Iterator[Finding]:
    """Report a member of a gang that keeps the default scheduler for its claims."""
    group = find_group(pod)
    if group is not None and group.is_gang and is_default_scheduler(get_value(pod, SCHEDULER)):
        yield GANG_SPLIT.at(
            format_path(SCHEDULER),
            f"the pod is a member of a gang and keeps {DEFAULT} for its claims, but members "
            f"without claims of their own move to {OURS}",
            remedy=_CLAIMS_OR_LEAVE if unserved else _OWN_OR_LEAVE,
        )


def report_split_gangs(members: Iterable[Member]) -> Iterator[tuple[PodGroup, Finding]]:
    """Report the gangs of which our scheduler has some members, and another one the others."""
    for split in find_split_gangs(members):
        if OURS not in split.pods:
            continue
        parts = (
            f"{name} has {count_noun(len(pods), 'member')} ({list_some(pods, _MAX_NAMES, 'pod')})"
            for name, pods in split.pods.items()
        )
        message = f"{split.group} has several schedulers: {', '.join(parts)}"
        yield split.group, GANG_SPLIT.at(format_path(SCHEDULER), message)
