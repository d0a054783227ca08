"""The binding conditions of allocated devices.

A driver can require that conditions of a device are true before a pod is bound, for example that a
fabric has attached the device. It reports them in the status of the claim.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from drawbridge.dra.allocation import AllocationResult, ClaimStatus

_TRUE: Final = "True"


class UnreadyDevice(NamedTuple):
    """A device that reports failure conditions, or that misses some for the binding."""

    result: AllocationResult
    failed: tuple[str, ...]
    missing: tuple[str, ...]

    def __str__(self) -> str:
        result = self.result
        device = f"device {result.driver}/{result.pool}/{result.device}"
        if self.failed:
            return f"{device} reports {', '.join(self.failed)}"
        return f"{device} does not report {', '.join(self.missing)}"


def find_unready(status: ClaimStatus) -> Iterator[UnreadyDevice]:
    """Yield the allocated devices of a claim with which no pod is bound yet, or ever."""
    for result in status.allocation.devices.results if status.allocation else ():
        conditions = _find_true(status, result)
        failed = tuple(each for each in result.binding_failure_conditions if each in conditions)
        missing = tuple(each for each in result.binding_conditions if each not in conditions)
        if failed or missing:
            yield UnreadyDevice(result, failed, missing)


def _find_true(status: ClaimStatus, result: AllocationResult) -> frozenset[str]:
    """Return the conditions of an allocated device that are true."""
    device = (result.driver, result.pool, result.device, result.share_id)
    return frozenset(
        condition.type
        for allocated in status.devices
        if (allocated.driver, allocated.pool, allocated.device, allocated.share_id) == device
        for condition in allocated.conditions
        if condition.status == _TRUE
    )
