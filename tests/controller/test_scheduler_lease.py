"""The controller finds out by its own clock whether the scheduler renews its Lease."""

import asyncio
import datetime as dt
from typing import Any

from controller.scheduler_lease import SchedulerLeaseReconciler
from drawbridge.config.model import Configuration, Placement
from tests.tables import every_row

RENEWED = dt.datetime(2027, 1, 15, 8, tzinfo=dt.UTC)
BRIDGE = Configuration(placement=Placement.BRIDGE)


class Leases:
    """A Lease that a scheduler renews by the clock of its machine."""

    def __init__(self, skew: float) -> None:
        self.now = 0.0  # elapsed
        self._skew = skew
        self.live: dict[str, Any] | None = None

    def renew(self) -> None:
        """Renew it."""
        time = RENEWED + dt.timedelta(seconds=self.now + self._skew)
        self.live = {"spec": {"renewTime": time.isoformat()}}

    async def read(self, _name: str) -> dict[str, Any] | None:
        """Return it."""
        return self.live


@every_row("skew", [0, 120, -120, 86400, -86400])
def test_a_scheduler_is_missing_a_minute_after_its_last_renewal_whatever_its_clock_says(
    skew: float,
) -> None:
    leases, told = Leases(skew), []
    watched = SchedulerLeaseReconciler(leases, lambda: BRIDGE, lambda: leases.now)  # type: ignore[arg-type]  # it reads only
    watched.listener = lambda: told.append(leases.now)

    async def missing(after: float, *, renewed: bool) -> bool:
        leases.now += after
        if renewed:
            leases.renew()
        await watched.reconcile()
        return await watched.is_missing()

    async def play() -> list[bool]:
        return [
            await missing(0, renewed=False),
            await missing(1, renewed=True),
            await missing(2, renewed=True),
            await missing(59, renewed=False),
            await missing(2, renewed=False),
            await missing(600, renewed=True),
        ]

    assert asyncio.run(play()) == [True, False, False, False, True, False]
    assert told == [0, 1, 64, 664]


def test_native_placement_needs_no_scheduler() -> None:
    watched = SchedulerLeaseReconciler(Leases(0), Configuration)  # type: ignore[arg-type]  # as above
    assert asyncio.run(watched.is_missing()) is False
