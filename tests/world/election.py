"""Takes and renews the Lease of the schedulers as client-go does, by the clock of one host."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.cluster.fake.kinds import JSON
from tests.world import clock
from tests.world.network import LEASE_SECONDS, SYSTEM, Network
from tests.world.nodes import Client

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/drawbridge-scheduler"
_RENEW_SECONDS = 10


def find_holder(lease: JSON | None) -> str:
    """Return who has a Lease; empty if nobody has it."""
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")


class Election:
    """The part that one host takes in it, with one process after the other."""

    def __init__(self, network: Network, client: Client, host: str, number: int) -> None:
        self._network, self._client = network, client
        self._host, self._number = host, number
        self._seen: tuple[str, float] = ("", 0.0)
        self._renewed = float("-inf")
        self._has_ended = False  # whether another process is to begin
        self._pause = 0.0  # until it takes part

    @property
    def leads(self) -> bool:
        """Whether this process believes that it holds the Lease."""
        return asyncio.get_running_loop().time() - self._renewed < _RENEW_SECONDS

    @property
    def _holder(self) -> str:
        return f"{self._host}_{self._number}"

    def end(self, *, releases: bool, pause: float) -> None:
        """End the process, which can release its Lease; the next one begins after a pause."""
        if releases and self.leads:
            asyncio.ensure_future(self._release(self._holder))  # noqa: RUF006  # ends by itself
        self._renewed = float("-inf")
        self._has_ended, self._pause = True, pause

    async def run(
        self, on_loss: Callable[[], Awaitable[None]], on_success: Callable[[], None]
    ) -> None:
        """Try again and again until cancelled; after a loss, as another process."""
        was_leading = False
        while True:
            await asyncio.sleep(2 + self._network.random.random() * 0.2)
            if self._has_ended or (was_leading and not self.leads):
                self._number += 1000
                await on_loss()
                was_leading = self._has_ended = False
                await asyncio.sleep(self._pause)
            if await self._try():
                was_leading = True
                on_success()

    async def _try(self) -> bool:
        """Take or renew the Lease, unless another process has it."""
        sent = asyncio.get_running_loop().time()
        lease = await self._client.ask("GET", LEASE)
        if lease is None:
            return False
        spec = lease.get("spec") or {}
        now = asyncio.get_running_loop().time()
        if spec.get("renewTime", "") != self._seen[0]:
            self._seen = (spec.get("renewTime", ""), now)
        is_own = spec.get("holderIdentity") == self._holder
        if not is_own and spec.get("holderIdentity") and now - self._seen[1] < LEASE_SECONDS:
            return False
        changes = {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": LEASE_SECONDS,
            "leaseTransitions": spec.get("leaseTransitions", 0) + (not is_own),
        }
        if not await self._write(lease, changes) or self._has_ended:
            return False
        if not is_own:
            self._network.count("term")
        self._renewed = sent
        return True

    async def _release(self, holder: str) -> None:
        lease = await self._client.ask("GET", LEASE)
        spec = (lease or {}).get("spec") or {}
        if spec.get("holderIdentity") == holder:
            free = {"holderIdentity": "", "leaseDurationSeconds": 1}
            await self._write(lease, {**spec, **free})

    async def _write(self, lease: JSON, changes: JSON) -> bool:
        renewed = f"{clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
        value = {**lease, "spec": {**changes, "renewTime": renewed}}
        return await self._client.ask("PUT", LEASE, value) is not None
