"""What is asked about a group, what is answered, and how many members must get devices."""

from typing import Final

import msgspec

from allocator.scheduler.protocol import GroupReference
from drawbridge.agreement import allocator_codes as codes
from drawbridge.ledger.node_fit import make_reason
from drawbridge.pod_groups import COSCHEDULING_LABEL, GroupForm, PodGroup
from drawbridge.solver.reasons import Reason

STAGE: Final = "group"


class GroupQuestion(msgspec.Struct, frozen=True):
    """A group and its members that had no node, in the order of the scheduler.

    All of them have the `priority`. The scheduler asks about the pod `asking`, if any.
    """

    group: GroupReference
    members: tuple[str, ...]
    priority: int
    asking: str = ""


class GroupAnswer(msgspec.Struct, frozen=True):
    """The members that got devices, or why none did; without `complete`, the search continues.

    Members that are decided about `alone` can ask then.
    A group that pauses is not asked about before a time; for a `preemptible` one, others can go.
    """

    placed: tuple[str, ...] = ()
    reason: Reason | None = None
    complete: bool = True
    pauses_until: float = 0.0
    preemptible: bool = False
    alone: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether the group waits for what others release for it."""
        return self.reason is not None and self.reason.code == codes.DEVICES_BEING_RELEASED.name


def key_of_group(group: PodGroup) -> str:
    """Return the key that the plugin gives a group (`groupOf` in group.go)."""
    match group.form:
        case GroupForm.WORKLOAD_REF:
            return f"{group.namespace}/{group.name}/{group.part}/{group.replica}"
        case GroupForm.COSCHEDULING:
            return f"{group.namespace}/{COSCHEDULING_LABEL}={group.name}"
        case _:
            return f"{group.namespace}/{group.name}"


def needed_members(group: GroupReference, asking: int) -> int:
    """Return how many members must get devices now; all of them if the group does not say."""
    if not group.min_count:
        return asking
    return max(group.min_count - group.scheduled, 1)


def too_large(group: GroupReference, fitting: int, needed: int) -> Reason:
    """Return that too few members fit."""
    scheduled = f", {group.scheduled} more are scheduled" if group.scheduled else ""
    text = f"{fitting} of {needed} members of the group fit{scheduled}"
    return make_reason(codes.GANG_TOO_LARGE, STAGE, text)
