"""Decides from the status of claims whether the devices of a pod are ready for its binding.

An allocation that is not stored as a whole is never ready.
"""

import datetime as dt
import enum
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from allocator.state.reports import ClaimFinding, about_claim
from drawbridge.agreement import allocator_codes as codes
from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.allocation import ClaimStatus
from drawbridge.dra.binding_conditions import find_unready
from drawbridge.dra.claim import Claim
from drawbridge.ledger.allocation_mark import find_dropped
from drawbridge.ledger.holdings import DeviceID, device_of
from drawbridge.ledger.ledger import name_of

_MAX_ALLOCATIONS: Final = 16384
# What devices have left at least when a process first sees that they are not ready.
LEFT_SECONDS: Final = 60.0


class Readiness(enum.Enum):
    """Whether a pod can be bound."""

    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"


class BindingState(NamedTuple):
    """The state of the binding conditions, what is missing, and the device that failed.

    `told` says what was not stored.
    """

    state: Readiness
    missing: str = ""
    device: DeviceID | None = None
    told: ClaimFinding | None = None


class AllocationAges:
    """How long ago claims with devices that are not ready were allocated.

    It is counted by the own clock from the first look at an allocation. API servers have different
    clocks, so their time only tells how old an allocation is then, and never that its time is over.
    """

    def __init__(self, timeout: float) -> None:
        self._most = max(0.0, timeout - LEFT_SECONDS)
        # The own time since which an allocation counts, by the UID of its claim and by its time.
        self._since: BoundedCache[tuple[str, str | None], float] = BoundedCache(_MAX_ALLOCATIONS)

    def find(self, claim: Claim, server_time: float, now: float) -> float:
        """Return the seconds since the allocation, at the own time `now`."""
        allocation = claim.status.allocation
        key = claim.metadata.uid, allocation.allocation_timestamp if allocation else None
        since = self._since.get(key)
        if since is None:
            since = now - max(0.0, min(self._most, _age(claim.status, server_time)))
            self._since.put(key, since)
        return now - since


def readiness(
    claims: Iterable[Claim], age_of: Callable[[Claim], float], timeout: float
) -> BindingState:
    """Return the state of the binding conditions.

    It is FAILED if a failure condition is true, if a condition is not true `timeout` seconds
    after the allocation, or if the allocation is not stored as a whole.
    """
    waiting = ""
    for claim in claims:
        name = f"claim {name_of(claim)}"
        if dropped := find_dropped(claim):
            text = f"{name}: the API server has not stored {dropped}"
            told = about_claim(codes.ALLOCATION_NOT_STORED, claim, text)
            return BindingState(Readiness.FAILED, text, told=told)
        for device in find_unready(claim.status):
            result, text = device.result, f"{name}: {device}"
            device_id = device_of(result)
            if device.failed:
                return BindingState(Readiness.FAILED, text, device_id)
            if age_of(claim) >= timeout:
                return BindingState(Readiness.FAILED, f"{text} after {timeout:g} s", device_id)
            waiting = text
    return BindingState(Readiness.WAITING, waiting) if waiting else BindingState(Readiness.READY)


def _age(status: ClaimStatus, now: float) -> float:
    """Return the seconds since the allocation; 0 if it has no valid time."""
    text = status.allocation.allocation_timestamp if status.allocation else None
    try:
        return now - dt.datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return 0.0
