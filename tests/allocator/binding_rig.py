"""A cluster with two claims, and one allocator process that writes to it."""

import asyncio

from allocator.state.conflicts import ContestedClaim
from allocator.state.reports import ClaimFinding
from allocator.writes.binding import BindingTimes, BindOutcome, PodBinder
from allocator.writes.recovery import Recovery
from drawbridge.dra.claim import Claim
from drawbridge.dra.inventory import PoolID
from drawbridge.ledger import codes
from drawbridge.ledger.conflicts import Conflict
from tests.allocator.fake_cluster import FakeCluster, FakeReservations

TWICE = codes.DEVICE_HELD_TWICE.at("", "held by n/a and n/b", object="Device/d.io/p/gpu-0-0")
# The writes of a pod with two claims.
ORDER = ["mark a", "mark b", "allocate a", "allocate b", "bind"]


class Rig:
    """A cluster with two claims, and one allocator process."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.cluster.add_claim("a")
        self.cluster.add_claim("b")
        self.leads = True
        self.woken: asyncio.Queue[str] = asyncio.Queue()
        self.reported: list[str] = []
        self.logged: list[str] = []
        self.start()

    def start(self) -> None:
        """Start the process; nothing in memory is kept."""
        self.reservations = FakeReservations(self.cluster)
        self.reservations.report = self.report
        self.reservations.woken = self.woken.put_nowait
        self.binder = PodBinder(
            self.reservations,
            self.cluster,
            self.cluster,
            leads=lambda: self.leads,
            times=BindingTimes(wait=0, timeout=600),
        )
        self.recovery = Recovery(self.reservations, self.cluster, self.binder)

    def report(self, told: ClaimFinding) -> None:
        """Note a report."""
        finding, name = told.finding, told.claim.metadata.name
        self.logged.append(told.unabridged or finding.message)
        self.reported.append(f"{finding.code} {name}: {finding.message}")

    async def bind(self, pod: str = "pod") -> str:
        """Bind a pod; returns the message, empty if it is bound."""
        self.outcome, message = await self.binder.bind(f"uid-{pod}", "node-1")
        assert (self.outcome is BindOutcome.BOUND) is not bool(message)
        return message

    def claim(self, name: str) -> Claim:
        """Return a claim as stored."""
        return self.cluster.claims["n", name]

    def consumers(self, name: str) -> list[str]:
        """Return the pods that use a claim."""
        return [each.name for each in self.claim(name).status.reserved_for]


def contest(rig: Rig, rival: str = "b") -> None:
    """Let another allocator give the device of claim `a` to another one."""
    conflict = Conflict(TWICE, PoolID("d.io", "p"), holders=(f"uid-{rival}", "uid-a"))
    rig.reservations.contested["uid-a"] = ContestedClaim("uid-a", f"uid-{rival}", conflict)
