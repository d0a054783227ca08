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
        return await watched.is_missing(was_missing=False)

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
    assert told == [1, 64, 664]  # the facts asked at first


@every_row(
    ("was_missing", "renews", "missing"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_a_new_leader_trusts_a_lease_as_the_facts_before_do(
    *, was_missing: bool, renews: bool, missing: bool
) -> None:
    leases = Leases(0)
    leases.renew()
    leases.now = 3600
    watched = SchedulerLeaseReconciler(leases, lambda: BRIDGE, lambda: leases.now)  # type: ignore[arg-type]  # as above

    async def play() -> bool:
        await watched.reconcile()  # what was published is not known yet
        await watched.is_missing(was_missing=was_missing)
        leases.now += 5
        if renews:
            leases.renew()
        return await watched.is_missing(was_missing=was_missing)

    assert asyncio.run(play()) is missing


def test_native_placement_needs_no_scheduler_and_knows_how_old_its_lease_is() -> None:
    leases, configuration = Leases(0), [Configuration()]
    watched = SchedulerLeaseReconciler(leases, lambda: configuration[0], lambda: leases.now)  # type: ignore[arg-type]  # as above

    async def play() -> list[bool]:
        leases.renew()
        native = [await watched.is_missing(was_missing=False)]
        leases.now = 61
        native.append(await watched.is_missing(was_missing=False))
        configuration[0] = BRIDGE
        return [*native, await watched.is_missing(was_missing=False)]

    assert asyncio.run(play()) == [False, False, True]
