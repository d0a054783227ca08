"""An API server with a network that delays, loses and repeats requests, on a virtual clock.

A request that one process has sent arrives also if the process is killed afterwards. The server
notes each write that gives a device to two claims or to two running pods.
"""

import asyncio
import contextlib
import random
import selectors
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec.structs import replace

from allocator.writes.cluster_writes import FINALIZER, PodName, PodPlace
from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import NotLeadingError
from drawbridge.dra.allocation import ClaimStatus
from drawbridge.dra.claim import Claim
from drawbridge.names import ALLOCATION_ANNOTATION
from tests.allocator.clusters import as_claim, claim
from tests.allocator.memory_writes import Change, MemoryWrites

T = TypeVar("T")
Device = tuple[str, str]  # pool and name
_UNDELIVERED = "no response"


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes at once when nothing is left to do."""

    def __init__(self) -> None:
        self._virtual = 0.0
        super().__init__(_NoWait(self))

    def time(self) -> float:
        """Return the virtual time."""
        return self._virtual

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self._virtual += seconds


class _NoWait(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        """Pass the time instead of waiting."""
        if timeout is None:
            raise AssertionError("the simulation waits for something that never happens")
        self._loop.pass_time(max(timeout, 0))
        return []  # nothing comes from outside


@dataclass
class SimulatedPod:
    """A pod; `prepared` are the devices that its kubelet has prepared."""

    uid: str
    claims: tuple[str, ...]
    node: str = ""
    version: int = 1
    deleted: bool = False
    prepared: frozenset[Device] = frozenset()


@dataclass
class Faults:
    """How often requests fail, and how often held pods are tried again: parts of one."""

    refused: float = 0.0
    overloaded: float = 0.0
    lost: float = 0.0
    repeated: float = 0.0
    slow: float = 0.0
    retried: float = 0.0


@dataclass
class SimulatedApi:
    """The objects, and every version of a claim in order."""

    random: random.Random
    faults: Faults = field(default_factory=Faults)
    claims: dict[str, Claim] = field(default_factory=dict)
    pods: dict[str, SimulatedPod] = field(default_factory=dict)
    history: list[tuple[Claim | None, Claim | None]] = field(default_factory=list)
    version: int = 100
    leader: str = ""
    terms: int = 0
    violations: list[str] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    long_holds: int = 0

    # --- what other clients do ---

    def add_pod(self, uid: str, *claims: str, counts: Sequence[int] = ()) -> None:
        """Create a pod, and the claims that do not exist."""
        self.pods[uid] = SimulatedPod(uid, claims)
        for name, count in zip(claims, counts or [1] * len(claims), strict=True):
            if name not in self.claims:
                plain = claim(name, count)
                plain["metadata"]["uid"] = f"{name}-{self.version}"
                self.put(None, as_claim(plain))

    def put(self, before: Claim | None, after: Claim | None) -> Claim | None:
        """Store a claim at a new version, or delete it; the finalizer delays a deletion."""
        self.version += 1
        if after is not None:
            metadata = replace(after.metadata, resource_version=f"{self.version}")
            after = replace(after, metadata=metadata)
            if metadata.deletion_timestamp is not None and not metadata.finalizers:
                after = None
        name = (after or before).metadata.name  # type: ignore[union-attr]  # one of them exists
        if after is None:
            del self.claims[name]
        else:
            self.claims[name] = after
        self.history.append((before, after))
        self._check_devices()
        return after

    def delete_claim(self, name: str) -> None:
        """Delete a claim; one with a finalizer is only marked for deletion."""
        current = self.claims[name]
        metadata = replace(current.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        self.put(current, replace(current, metadata=metadata))

    def delete_pod(self, uid: str) -> None:
        """Delete a pod at once; its kubelet has released the devices."""
        self.pods[uid].deleted = True

    def collect(self) -> None:
        """Do what the claim controller does: remove consumers that are gone, and deallocate."""
        for current in tuple(self.claims.values()):
            kept = tuple(
                consumer
                for consumer in current.status.reserved_for
                if not self.pods[consumer.uid].deleted
            )
            leaving = current.metadata.deletion_timestamp is not None and not kept
            if kept == current.status.reserved_for and not leaving:
                continue
            status = replace(current.status, reserved_for=kept) if kept else ClaimStatus()
            finalizers = current.metadata.finalizers if kept else ()
            metadata = replace(current.metadata, finalizers=finalizers)
            self.put(current, replace(current, metadata=metadata, status=status))

    def touch(self, name: str, annotations: dict[str, str]) -> None:
        """Write annotations, as a tenant can."""
        current = self.claims[name]
        merged = {**current.metadata.annotations, **annotations}
        metadata = replace(current.metadata, annotations=merged)
        self.put(current, replace(current, metadata=metadata))

    # --- what must hold at every moment ---

    def _check_devices(self) -> None:
        holders: dict[Device, str] = {}
        for stored in self.claims.values():
            for device in devices_of(stored):
                name = stored.metadata.name
                self.expect(device not in holders, f"{device} has {holders.get(device)}, {name}")
                holders[device] = name
                for pod in self.pods.values():
                    uses = device in pod.prepared and not pod.deleted
                    self.expect(not uses or name in pod.claims, f"{pod.uid} uses {device}")

    def expect(self, holds: object, text: str) -> None:
        """Note a violation."""
        if not holds:
            self.violations.append(text)

    def bind(self, uid: str, node: str, version: str) -> None:
        """Bind a pod; its kubelet prepares what is allocated and reserved for it."""
        pod = self.pods[uid]
        if pod.deleted:
            raise ApiError(404, "NotFound", "the pod is gone")
        if pod.node or f"{pod.version}" != version:
            raise ApiError(409, "Conflict", "the pod is bound or has changed")
        pod.node = node
        claims = [self.claims[name] for name in pod.claims if name in self.claims]
        own = [c for c in claims if any(each.uid == uid for each in c.status.reserved_for)]
        self.expect(len(own) == len(pod.claims), f"{uid} is bound without its claims")
        pod.prepared = frozenset(device for each in own for device in devices_of(each))
        self.expect({pool for pool, _ in pod.prepared} == {node}, f"{uid} is bound elsewhere")

    def write(self, name: str, before: Claim, change: Change) -> Claim:
        """Change one version of a claim."""
        current = self.claims.get(name)
        if current is None or current.metadata.uid != before.metadata.uid:
            raise ApiError(404, "NotFound", "the claim is gone")
        if current.metadata.resource_version != before.metadata.resource_version:
            raise ApiError(409, "Conflict", "the claim changed")
        after = change(current)
        if after.status.allocation not in (None, current.status.allocation):
            # Without the finalizer a claim could vanish while it is in use.
            self.expect(FINALIZER in current.metadata.finalizers, "allocated unprotected")
            self.expect(ALLOCATION_ANNOTATION in current.metadata.annotations, "no mark")
        stored = self.put(current, after)
        return stored or current

    # --- the network ---

    async def send(self, request: Callable[[], T]) -> T:
        """Send a request that arrives and is answered some time later, if at all."""
        chance, faults = self.random.random(), self.faults
        if (chance := chance - faults.refused) < 0:
            raise ApiError(403, "Forbidden", "forbidden")
        if (chance := chance - faults.overloaded) < 0:
            raise ApiError(429, "TooManyRequests", "too many requests")
        is_lost = (chance := chance - faults.lost) < 0
        is_repeated = not is_lost and chance - faults.repeated < 0
        arriving = self._send(request)
        if is_lost:
            await asyncio.sleep(self.random.uniform(0.0, 0.2))
            raise ApiError(0, "", _UNDELIVERED, unknown=True)
        answer = await asyncio.shield(arriving)
        if is_repeated:
            answer = await asyncio.shield(self._send(request))
        await asyncio.sleep(self.random.expovariate(200))
        return answer

    def _send(self, request: Callable[[], T]) -> "asyncio.Future[T]":
        arriving = asyncio.ensure_future(self._arrive(request))
        arriving.add_done_callback(_retrieve)
        return arriving

    async def _arrive(self, request: Callable[[], T]) -> T:
        is_slow = self.random.random() < self.faults.slow
        await asyncio.sleep(self.random.uniform(0, 4) if is_slow else self.random.expovariate(200))
        return request()


def _retrieve(done: "asyncio.Future[Any]") -> None:
    with contextlib.suppress(ApiError, asyncio.CancelledError):
        done.result()


def devices_of(claim: Claim) -> set[Device]:
    """Return the devices that a claim holds."""
    allocation = claim.status.allocation
    return {(r.pool, r.device) for r in allocation.devices.results} if allocation else set()


class SimulatedWrites(MemoryWrites):
    """Implements `ClusterWrites` for one process, which can be stopped between check and send."""

    def __init__(self, api: SimulatedApi, host: str, runs: asyncio.Event) -> None:
        self._api, self._host, self._runs = api, host, runs

    async def read_claim(self, _: str, name: str) -> Claim | None:
        """Read a claim."""
        return await self._read(lambda: self._api.claims.get(name))

    async def list_claims(self) -> list[Claim]:
        """Return all claims."""
        return await self._read(lambda: list(self._api.claims.values()))

    async def read_place(self, pod: PodName) -> PodPlace | None:
        """Return where a pod is."""

        def read() -> PodPlace | None:
            stored = self._api.pods[pod.uid]
            return None if stored.deleted else PodPlace(stored.node, f"{stored.version}")

        return await self._read(read)

    async def bind(self, pod: PodName, node: str, version: str) -> None:
        """Bind a pod."""
        await self._check()
        await self._api.send(lambda: self._api.bind(pod.uid, node, version))
        await self._runs.wait()

    async def change(self, _: str, claim: Claim, change: Change) -> Claim:
        """Send a write of a claim."""
        await self._check()
        answer = await self._api.send(lambda: self._api.write(claim.metadata.name, claim, change))
        await self._runs.wait()
        return answer

    async def _read(self, read: Callable[[], T]) -> T:
        await self._runs.wait()
        answer = await self._api.send(read)
        await self._runs.wait()
        return answer

    async def _check(self) -> None:
        await self._runs.wait()
        if self._api.leader != self._host:
            raise NotLeadingError("another host leads")
        await asyncio.sleep(0)  # the process can be stopped here
        await self._runs.wait()


def run_virtually(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a simulation to its end; what still runs then is cancelled."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())
