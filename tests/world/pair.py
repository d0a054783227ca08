"""One kube-scheduler and the real allocator beside it, which calls it as the plugin does."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, cast

import msgspec

from allocator.process import AllocatorOptions, _create_caches, _Parts
from allocator.scheduler.protocol import (
    PodOnNode,
    PodReference,
    PreFilterRequest,
    ProtocolError,
    SchedulingPod,
    StatusRequest,
    UnreserveRequest,
)
from allocator.state.reserved_pods import HoldLimits
from allocator.writes.binding import BindingTimes
from drawbridge.cluster.history import HistoryChangedError
from drawbridge.process.run import StopSignal
from drawbridge.process.settings import Settings, watch_in_use
from tests.cluster.fake.kinds import JSON
from tests.world.network import LEASE_SECONDS, SYSTEM, Follower, Network, WorldSession
from tests.world.nodes import CLAIMS, PODS, Client, claim_names

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/drawbridge-scheduler"
_TOLERATION = {"key": "drawbridge.dev/owned", "operator": "Exists"}


class Pair:
    """The two processes on a host; `kill` ends both at once."""

    def __init__(self, network: Network, host: str, number: int) -> None:
        self.network, self.host, self.number = network, host, number
        self.parts: _Parts | None = None
        self.failure = ""
        self.restores = 0
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._client = Client(network, f"scheduler {host}")
        self._pods, self._claims = Follower(network, PODS), Follower(network, CLAIMS)
        self._renewed = float("-inf")
        self._seen: tuple[str, float] = ("", 0.0)
        self._busy: set[str] = set()

    def start(self) -> None:
        """Run until killed."""
        for part in (
            self._pods.run(),
            self._claims.run(),
            self._elect(),
            self._schedule(),
            self._allocate(),
        ):
            self._spawn(part)

    def _spawn(self, part: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(part)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failure = self.failure or f"{error!r}"

    async def kill(self) -> None:
        """End everything; what was sent still arrives."""
        ending = list(self._tasks)
        if self.parts is not None:
            ending += self.parts.calls._releases  # type: ignore[arg-type]  # noqa: SLF001
            for each in (self.parts.binder._undoing, self.parts.recovery._undoing):  # noqa: SLF001
                ending += [task for _, task in each._running.values()]  # noqa: SLF001
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        self.parts = None

    # --- the allocator ---

    async def _allocate(self) -> None:
        """Run the allocator, and start it again when it noticed a restore."""
        while True:
            session = WorldSession(self.network, f"allocator {self.host}")
            settings = Settings([watch_in_use(session)])
            running = [asyncio.ensure_future(each) for each in settings.run()]
            try:
                await settings.wait()
                caches = await _create_caches(session, SYSTEM, StopSignal())
                assert caches is not None, "nobody stops the process"
                options = AllocatorOptions(
                    process=cast("Any", None),
                    socket="",
                    lease="drawbridge-scheduler",
                    host=self.host,
                    api=None,
                    binding=BindingTimes(wait=110, timeout=600),
                    holding=HoldLimits(),
                )
                self.parts = _Parts(options, settings, session, caches)
                running += [asyncio.ensure_future(each) for each in self.parts.run()]
                await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
            finally:
                for each in running:
                    each.cancel()
                ended = await asyncio.gather(*running, return_exceptions=True)
                self.parts = None
            failed = [e for e in ended if isinstance(e, Exception)]
            for error in failed:
                if not isinstance(error, HistoryChangedError):
                    raise error
            self.restores += 1
            await asyncio.sleep(1)

    # --- the scheduler ---

    @property
    def leads(self) -> bool:
        """Whether the scheduler believes that it holds the Lease."""
        return asyncio.get_running_loop().time() - self._renewed < 10  # renewDeadline

    async def _elect(self) -> None:
        """Take and renew the Lease as client-go does, by the clock of this host."""
        while True:
            await asyncio.sleep(2 + self.network.random.random() * 0.2)
            sent = asyncio.get_running_loop().time()
            lease = await self._client.ask("GET", LEASE)
            if lease is None:
                continue
            spec, holder = lease.get("spec") or {}, f"{self.host}_{self.number}"
            if spec.get("renewTime", "") != self._seen[0]:
                self._seen = (spec.get("renewTime", ""), sent)
            is_own = spec.get("holderIdentity") == holder
            if not is_own and spec.get("holderIdentity") and sent - self._seen[1] < LEASE_SECONDS:
                continue
            spec = {
                "holderIdentity": holder,
                "leaseDurationSeconds": LEASE_SECONDS,
                "leaseTransitions": spec.get("leaseTransitions", 0) + (not is_own),
                "renewTime": f"{self.host}-{self.number}-{sent:.6f}",
            }
            if await self._client.ask("PUT", LEASE, {**lease, "spec": spec}) is not None:
                self._renewed = sent

    async def _schedule(self) -> None:
        random = self.network.random
        while True:
            await asyncio.sleep(random.expovariate(10))
            if self.parts is None or not self.leads:
                continue
            with contextlib.suppress(ProtocolError):
                self.parts.calls.status(StatusRequest(held_pods=()))
                waiting = [each for each in self._pods.objects.values() if self._waits(each)]
                if waiting:
                    self._try(random.choice(waiting))

    def _waits(self, pod: JSON) -> bool:
        metadata = pod["metadata"]
        is_open = "nodeName" not in pod["spec"] and "deletionTimestamp" not in metadata
        return is_open and metadata["uid"] not in self._busy

    def _try(self, pod: JSON) -> None:
        assert self.parts is not None
        metadata = pod["metadata"]
        by_name = {each["metadata"]["name"]: each for each in self._claims.objects.values()}
        claims = [by_name.get(name) for name in claim_names(pod)]
        if any(each is None for each in claims):
            return
        about = msgspec.convert(
            {
                **{k: metadata[k] for k in ("namespace", "name", "uid")},
                "tolerations": [_TOLERATION],
            },
            SchedulingPod,
        )
        encoded = tuple(msgspec.Raw(msgspec.json.encode(each)) for each in claims)
        reply = self.parts.calls.prefilter(PreFilterRequest(pod=about, claims=encoded, max_nodes=3))
        if not reply.fit:
            return
        place = PodOnNode(pod_uid=about.uid, node=self.network.random.choice(reply.fit).node)
        if self.parts.calls.reserve(place).reserved:
            self._busy.add(about.uid)
            self._spawn(self._bind(place))

    async def _bind(self, place: PodOnNode) -> None:
        random = self.network.random
        try:
            await asyncio.sleep(random.expovariate(20))
            parts = self.parts
            if parts is None:
                return
            with contextlib.suppress(ProtocolError):
                choice = random.random()
                reply = await parts.calls.bind(place) if choice > 0.05 else None
                if reply is None or not reply.bound:
                    parts.calls.unreserve(UnreserveRequest(pod_uid=place.pod_uid))
                if choice < 0.02:
                    await parts.calls.release(PodReference(pod_uid=place.pod_uid))
        finally:
            self._busy.discard(place.pod_uid)
