"""Decides from the status of claims whether the devices of a pod are ready for its binding.

A driver can require that conditions of a device are true before a pod is bound, for example that a
fabric has attached the device.
"""

import datetime as dt
import enum
from collections.abc import Iterable

from dra.allocation import AllocationResult, ClaimStatus
from dra.claim import Claim

_TRUE = "True"


class Readiness(enum.Enum):
    """Whether a pod can be bound."""

    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"


def readiness(claims: Iterable[Claim], now: float, timeout: float) -> tuple[Readiness, str]:
    """Return the state of the binding conditions at Unix time `now`, and what is missing.

    The state is FAILED if a failure condition is true, or if a condition is not true `timeout`
    seconds after the allocation.
    """
    waiting = ""
    for claim in claims:
        name = f"claim {claim.metadata.namespace}/{claim.metadata.name}"
        for result in _results(claim.status):
            device = f"{name}: device {result.driver}/{result.pool}/{result.device}"
            conditions = _conditions(claim.status, result)
            failed = [each for each in result.binding_failure_conditions if each in conditions]
            if failed:
                return Readiness.FAILED, f"{device} reports {', '.join(failed)}"
            missing = [each for each in result.binding_conditions if each not in conditions]
            if missing:
                waiting = f"{device} does not report {', '.join(missing)}"
                if _age(claim.status, now) >= timeout:
                    return Readiness.FAILED, f"{waiting} after {timeout:g} s"
    return (Readiness.WAITING, waiting) if waiting else (Readiness.READY, "")


def _results(status: ClaimStatus) -> tuple[AllocationResult, ...]:
    return status.allocation.devices.results if status.allocation else ()


def _conditions(status: ClaimStatus, result: AllocationResult) -> frozenset[str]:
    """Return the conditions of an allocated device that are true."""
    device = (result.driver, result.pool, result.device, result.share_id)
    return frozenset(
        condition.type
        for each in status.devices
        if (each.driver, each.pool, each.device, each.share_id) == device
        for condition in each.conditions
        if condition.status == _TRUE
    )


def _age(status: ClaimStatus, now: float) -> float:
    """Return the seconds since the allocation; 0 if it has no valid time."""
    text = status.allocation.allocation_timestamp if status.allocation else None
    try:
        return now - dt.datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return 0.0
