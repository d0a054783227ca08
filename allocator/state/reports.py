"""What persons are to be told, as data: decisions add it, and the process carries it out."""

import enum
from typing import NamedTuple, TypeAlias

from allocator.scheduler.protocol import SchedulingPod
from drawbridge.dra.claim import CLAIM, Claim
from drawbridge.dra.validation import format_object_name
from drawbridge.finding import Code, Finding

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
    """What is wrong with a claim, such as a device that another claim holds.

    An event of the claim has the finding, so it names nothing of other namespaces. The log has the
    message `unabridged`, if there is one.
    """

    finding: Finding
    claim: Claim
    unabridged: str = ""


def about_claim(
    code: Code, claim: Claim, message: str, path: str = "status.allocation", unabridged: str = ""
) -> ClaimFinding:
    """Return what has happened to a claim."""
    finding = code.at(path, message, object=format_object_name(CLAIM, claim.metadata))
    return ClaimFinding(finding, claim, unabridged)


Report: TypeAlias = EndedHold | ClaimFinding
