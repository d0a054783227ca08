"""Watches whether the scheduler of bridge placement runs, and wakes the facts when that changes.

Admission assigns no pod to a scheduler that is not there. The facts say so, so that all replicas
decide the same, and a pod is translated again as it was.

The time in the Lease is that of the scheduler's machine. Only its changes count, and the time since
the last one by the clock of this process. A Lease that is deleted, or created without a time, is no
change: a scheduler that runs renews it within seconds.
"""

import math
from collections.abc import Callable
from typing import Final

from controller.protocols import ObjectStore
from drawbridge.agreement.scheduler_lease import PATIENCE_SECONDS, last_renewal
from drawbridge.cluster.server_clock import boot_time
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
        now: Callable[[], float] = boot_time,
    ) -> None:
        self.listener: Callable[[], None] = lambda: None
        self._leases = leases
        self._configuration = configuration
        self._now = now
        self._was_missing: bool | None = None
        self._renewed: float | None = None  # the time in the Lease, and when it was first read
        self._seen: float | None = None

    async def is_missing(self, *, was_missing: bool) -> bool:
        """Return whether bridge placement is configured and its scheduler does not run.

        `was_missing` is what was published before: only that says how old a Lease is that this
        process reads for the first time.
        """
        # Also with native placement, so that its age is known once this is bridge placement.
        renewed = last_renewal(await self._leases.read(SCHEDULER_LEASE))
        left = self._is_left(renewed, was_missing=was_missing)
        self._was_missing = left and self._configuration().placement is Placement.BRIDGE
        return self._was_missing

    def _is_left(self, renewed: float | None, *, was_missing: bool) -> bool:
        if self._seen is None:
            self._seen = -math.inf
            self._renewed = renewed if was_missing else None
        if renewed not in {None, self._renewed}:
            self._renewed, self._seen = renewed, self._now()
        return self._now() - self._seen > PATIENCE_SECONDS

    async def reconcile(self) -> None:
        """Wake the facts if the answer has changed since they asked."""
        before = self._was_missing
        if before is not None and await self.is_missing(was_missing=before) is not before:
            self.listener()
