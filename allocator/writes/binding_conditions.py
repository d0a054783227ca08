"""Decides from the status of claims whether the devices of a pod are ready for its binding.

A driver can require that conditions of a device are true before a pod is bound, for example that a
fabric has attached the device.
"""

import datetime as dt
import enum
from collections.abc import Iterable
from typing import NamedTuple

from drawbridge.dra.allocation import AllocationResult, ClaimStatus
from drawbridge.dra.claim import Claim
from drawbridge.dra.inventory import PoolID
from drawbridge.ledger.holdings import DeviceID
from drawbridge.ledger.ledger import name_of

_TRUE = "True"


class Readiness(enum.Enum):
    """Whether a pod can be bound."""

    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"


class BindingState(NamedTuple):
    """The state of the binding conditions, what is missing, and the device that failed."""

    state: Readiness
    missing: str = ""
    device: DeviceID | None = None


def readiness(claims: Iterable[Claim], now: float, timeout: float) -> BindingState:
    """Return the state of the binding conditions at Unix time `now`.

    It is FAILED if a failure condition is true, or if a condition is not true `timeout` seconds
    after the allocation.
    """
    waiting = ""
    for claim in claims:
        name = f"claim {name_of(claim)}"
        for result in _results(claim.status):
            device_id = DeviceID(PoolID(result.driver, result.pool), result.device)
            device = f"{name}: device {result.driver}/{result.pool}/{result.device}"
            conditions = _conditions(claim.status, result)
            failed = [each for each in result.binding_failure_conditions if each in conditions]
            if failed:
                text = f"{device} reports {', '.join(failed)}"
                return BindingState(Readiness.FAILED, text, device_id)
            missing = [each for each in result.binding_conditions if each not in conditions]
            if missing:
                waiting = f"{device} does not report {', '.join(missing)}"
                if _age(claim.status, now) >= timeout:
                    return BindingState(
                        Readiness.FAILED, f"{waiting} after {timeout:g} s", device_id
                    )
    return BindingState(Readiness.WAITING, waiting) if waiting else BindingState(Readiness.READY)


def _results(status: ClaimStatus) -> tuple[AllocationResult, ...]:
    return status.allocation.devices.results if status.allocation else ()


def _conditions(status: ClaimStatus, result: AllocationResult) -> frozenset[str]:
    """Return the conditions of an allocated device that are true."""
    device = (result.driver, result.pool, result.device, result.share_id)
    return frozenset(
        condition.type
        for allocated in status.devices
        if (allocated.driver, allocated.pool, allocated.device, allocated.share_id) == device
        for condition in allocated.conditions
        if condition.status == _TRUE
    )


def _age(status: ClaimStatus, now: float) -> float:
    """Return the seconds since the allocation; 0 if it has no valid time."""
    text = status.allocation.allocation_timestamp if status.allocation else None
    try:
        return now - dt.datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return 0.0
