"""Watches whether the scheduler of bridge placement runs, and wakes the facts when that changes.

Admission assigns no pod to a scheduler that is not there. The facts say so, so that all replicas
decide the same, and a pod is translated again as it was.
"""

from collections.abc import Callable
from typing import Final

from controller.protocols import ObjectStore
from drawbridge.agreement.scheduler_lease import is_scheduler_missing
from drawbridge.config.model import Configuration, Placement
from drawbridge.names import SCHEDULER_LEASE

NAME: Final = "scheduler"


class SchedulerLeaseReconciler:
    """Reads the Lease of the scheduler. It is renewed too often to be watched."""

    name = NAME

    def __init__(
        self,
        leases: ObjectStore,
        configuration: Callable[[], Configuration],
        now: Callable[[], float],
    ) -> None:
        self.listener: Callable[[], None] = lambda: None
        self._leases = leases
        self._configuration = configuration
        self._now = now
        self._was_missing: bool | None = None

    async def is_missing(self) -> bool:
        """Return whether bridge placement is configured and its scheduler does not run."""
        missing = False
        if self._configuration().placement is Placement.BRIDGE:
            missing = is_scheduler_missing(await self._leases.read(SCHEDULER_LEASE), self._now())
        self._was_missing = missing
        return missing

    async def reconcile(self) -> None:
        """Wake the facts if the answer has changed."""
        before = self._was_missing
        if await self.is_missing() is not before:
            self.listener()
