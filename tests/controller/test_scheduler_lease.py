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


# What the reads after a renewal show, and whether the scheduler is missing then.
RUNS: dict[str, tuple[list[tuple[float, dict[str, Any] | None]], list[bool]]] = {
    "deleted and not created again": (
        [(5, None), (54, None), (2, None)],
        [False, False, True],
    ),
    "created without a time": (
        [(5, None), (5, {"spec": {}}), (49, {"spec": {}}), (2, {"spec": {}})],
        [False, False, False, True],
    ),
    "deleted and created again with a later time": (
        [(50, None), (5, {"spec": {"renewTime": "2027-01-15T08:01:00Z"}}), (59, None)],
        [False, False, False],
    ),
    "deleted and created again as it was": (
        [(50, None), (5, {"spec": {"renewTime": f"{RENEWED}"}}), (6, None)],
        [False, False, True],
    ),
}


@every_row(("reads", "missing"), [*RUNS.values()])
def test_a_lease_that_is_deleted_has_its_minute_too(
    reads: list[tuple[float, dict[str, Any] | None]], missing: list[bool]
) -> None:
    leases = Leases(0)
    watched = SchedulerLeaseReconciler(leases, lambda: BRIDGE, lambda: leases.now)  # type: ignore[arg-type]  # as above
    leases.renew()

    async def play() -> list[bool]:
        await watched.is_missing(was_missing=False)
        after = []
        for seconds, leases.live in reads:
            leases.now += seconds
            after.append(await watched.is_missing(was_missing=False))
        return after

    assert asyncio.run(play()) == missing


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
