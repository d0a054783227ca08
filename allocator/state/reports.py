"""What persons are to be told, as data: decisions add it, and the process carries it out."""

import enum
from typing import NamedTuple, TypeAlias

from allocator.scheduler.protocol import SchedulingPod
from drawbridge.dra.claim import Claim
from drawbridge.finding import Finding

# Beyond, the oldest is dropped: it is not told.
MAX_REPORTS = 4096


class HoldEnd(enum.StrEnum):
    """Why a hold ended in vain."""

    DEADLINE = "the scheduler did not reserve all members in time"
    GIVEN_BACK = "the scheduler gave the devices of a member back"
    UNUSED = "the scheduler did not place a member where its devices are"
    LOST = "a member lost its devices"
    LEADER_CHANGED = "another process leads"


class EndedHold(NamedTuple):
    """A hold that ended in vain, by one of the members that were `left` to be reserved."""

    pod: SchedulingPod
    end: HoldEnd
    left: int
    members: int


class ClaimFinding(NamedTuple):
    """What is wrong with a claim, such as a device that another claim holds."""

    finding: Finding
    claim: Claim


Report: TypeAlias = EndedHold | ClaimFinding
