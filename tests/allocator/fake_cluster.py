"""The write path at an API server in memory: claims and pods, and faults of its writes.

A fault hits one of the writes, counted from 1. `refuse` fails before the write is stored, `lose`
after it, as if the response was lost, and `kill` ends the process at that point.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal, TypeVar

import msgspec

from allocator.state.conflicts import Conflicts, ContestedClaim
from allocator.state.records import ClaimReservation, PodReservation
from allocator.state.wheel import Wheel
from allocator.writes.api_server import ApiServerWrites
from allocator.writes.cluster_writes import Check, PodName, PodPlace, check_nothing
from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import NotLeadingError
from drawbridge.dra.allocation import (
    AllocatedDevices,
    Allocation,
    AllocationResult,
    ClaimStatus,
    Consumer,
)
from drawbridge.dra.claim import Claim
from drawbridge.ledger.allocation_mark import format_mark, make_mark
from drawbridge.ledger.holdings import DeviceID
from drawbridge.ledger.ledger import name_of
from drawbridge.ledger.pods import NamedPodMetadata, Pod
from tests.allocator.clusters import as_claim
from tests.cluster.fake.kinds import JSON
from tests.cluster.fake.server import Server
from tests.cluster.fake.session import ServerSession

T = TypeVar("T")
Fault = Literal["refuse", "lose", "kill before", "kill after", "not leading"]
NOW = 1_700_000_000.0
_CLAIM = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}


class KilledError(BaseException):
    """The process ends here."""


class FakeCluster(ApiServerWrites):
    """The write path at the fake API server, and a cache of claims that is always current."""

    def __init__(self) -> None:
        self.server = Server()
        self.session = ServerSession(self.server)
        super().__init__(self.session, _Trusted(), _Trusted())
        self.writes: list[str] = []
        self.ended_waits: list[str] = []
        self.faults: dict[int, Fault] = {}
        self.is_down = False
        self.confirmed: list[int] = []  # the number of writes before each look at the Lease
        self.other_leads = False  # as only a look at the Lease shows
        self.first_versions: dict[str, str] = {}  # of the pods, which the watch shows

    # --- what others do ---

    def add_claim(self, name: str, namespace: str = "n") -> Claim:
        """Create a claim."""
        request = {"name": "r", "exactly": {"deviceClassName": "g"}}
        metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
        spec = {"devices": {"requests": [request]}}
        self._load({**_CLAIM, "metadata": metadata, "spec": spec})
        return self.claims[namespace, name]

    def put(self, claim: Claim) -> None:
        """Store a claim as it is, at a new version."""
        self._load({**msgspec.json.decode(msgspec.json.encode(claim, enc_hook=str)), **_CLAIM})

    def put_pod(self, name: str, node: str = "", claims: Sequence[str] = ()) -> None:
        """Let a pod be on a node and name claims that were generated for it, at a new version."""
        metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}"}
        spec: JSON = {"nodeName": node} if node else {}
        spec["resourceClaims"] = [{"name": f"ref-{each}"} for each in claims]
        made = [{"name": f"ref-{each}", "resourceClaimName": each} for each in claims]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self._load({**pod, "status": {"resourceClaimStatuses": made}})
        self.first_versions.setdefault(name, f"{self.server.store.version}")

    def _load(self, value: JSON) -> None:
        """Store an object with the UID that it has."""
        self.server.store.version += 1
        value["metadata"]["resourceVersion"] = f"{self.server.store.version}"
        self.server.load([value])

    # --- what is stored ---

    @property
    def claims(self) -> dict[tuple[str, str], Claim]:
        """The claims, by namespace and name."""
        claims = map(as_claim, self.server.all("resourceclaims"))
        return {(each.metadata.namespace, each.metadata.name): each for each in claims}

    def node_of(self, pod: str) -> str | None:
        """Return the node of a pod; None if there is no such pod."""
        stored = self.server.get("pods", pod, "n")
        return None if stored is None else stored["spec"].get("nodeName", "")

    def is_clean(self, name: str) -> bool:
        """Whether a claim has neither a mark nor an allocation, a consumer or a finalizer."""
        claim = self.claims["n", name]
        return claim.status == ClaimStatus() and not (
            claim.metadata.finalizers or claim.metadata.annotations
        )

    # --- the cache ---

    def get(self, namespace: str, name: str) -> Claim | None:
        """Return a claim."""
        return self.claims.get((namespace, name))

    def next_change(self, _: Claim) -> "asyncio.Future[None]":
        """Return what is done, because nothing changes while the write path waits."""
        change = asyncio.get_running_loop().create_future()
        change.set_result(None)
        return change

    def end_waiting(self, claim_uid: str) -> None:
        """Note for which claim nobody waits any more."""
        self.ended_waits.append(claim_uid)

    # --- reads and writes ---

    async def confirm_leading(self) -> None:
        """Look at the Lease."""
        self._reach()
        self.confirmed.append(len(self.writes))
        if self.other_leads:
            raise NotLeadingError("host-b holds the Lease")

    async def read_claim(self, namespace: str, name: str) -> Claim | None:
        """Read a claim."""
        self._reach()
        return await super().read_claim(namespace, name)

    async def list_claims(self) -> AsyncIterator[Claim]:
        """Yield all claims."""
        self._reach()
        async for each in super().list_claims():
            yield each

    async def read_place(self, pod: PodName) -> PodPlace | None:
        """Return where a pod is."""
        self._reach()
        return await super().read_place(pod)

    async def mark(self, claim: Claim, mark: str, check: Check = check_nothing) -> Claim:
        """Write the mark and the finalizer."""
        request = partial(super().mark, claim, mark, check)
        return await self._write(f"mark {claim.metadata.name}", request)

    async def unmark(self, claim: Claim) -> Claim:
        """Remove the mark."""
        return await self._write(f"unmark {claim.metadata.name}", partial(super().unmark, claim))

    async def allocate(
        self, claim: Claim, allocation: Allocation, consumers: Sequence[Consumer], check: Check
    ) -> Claim:
        """Write the allocation and the consumers."""
        request = partial(super().allocate, claim, allocation, consumers, check)
        return await self._write(f"allocate {claim.metadata.name}", request)

    async def set_consumers(self, claim: Claim, consumers: Sequence[Consumer]) -> Claim:
        """Write the consumers."""
        request = partial(super().set_consumers, claim, consumers)
        return await self._write(f"consumers {claim.metadata.name}", request)

    async def deallocate(self, claim: Claim) -> Claim:
        """Remove the allocation and the consumers."""
        request = partial(super().deallocate, claim)
        return await self._write(f"deallocate {claim.metadata.name}", request)

    async def end_bindings(self, pod: PodName, claim: Claim) -> PodPlace | None:
        """Change a pod."""
        return await self._write(f"change {pod.name}", partial(super().end_bindings, pod, claim))

    async def bind(self, pod: PodName, node: str, version: str, check: Check) -> None:
        """Bind a pod."""
        await self._write("bind", partial(super().bind, pod, node, version, check))

    async def _write(self, what: str, send: Callable[[], Awaitable[T]]) -> T:
        """Send a write, unless a fault hits it."""
        self._reach()
        self.writes.append(what)
        fault = self.faults.get(len(self.writes))
        match fault:
            case "refuse":
                raise ApiError(403, "Forbidden", "forbidden")
            case "not leading":
                raise NotLeadingError("host-b holds the Lease")
            case "kill before":
                raise KilledError
        answer = await send()
        self.answer(fault)
        return answer

    def answer(self, fault: Fault | None) -> None:
        """Let the response to a write arrive, unless a fault hits it."""
        if fault == "lose":
            raise ApiError(0, "", "no response", unknown=True)
        if fault == "kill after":
            raise KilledError

    def _reach(self) -> None:
        if self.is_down:
            raise ApiError(0, "", "connection refused")


class _Trusted:
    """Lets every write go on: who leads and what was restored is not asked here."""

    newest = ""

    async def check(self) -> None:
        """This process leads."""

    async def confirm(self) -> None:
        """This process leads."""

    def compare_written(self, version: str, since: str) -> None:
        """Nothing was restored."""


class FakeReservations:
    """The state that is written: its own reservations of pods, and what was observed."""

    ready = True

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self.pods: dict[str, PodReservation] = {}
        self.group: Consumer | None = None  # for which claims are reserved from now on
        self.users: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self.refusal = ""
        self.lost = ""
        self.begun: list[str] = []
        self.bound: list[str] = []
        self.unused: list[Claim] = []
        self.ended: list[tuple[str, bool]] = []
        self.observed: list[Claim] = []
        self._observed_before: dict[str, int] = {}  # how many, when a claim was reserved last
        self.held: list[str] = []
        # The claims that have to yield, with the conflict; none of them has its devices afterwards.
        self.contested: dict[str, ContestedClaim] = {}
        self.penalised: list[str] = []
        self.dropped: set[str] = set()
        self.unwatched: list[Claim] = []  # what only the scheduler has told of
        self.shown: list[str] = []  # which of those the watch shows by now
        self.told: list[str] = []  # of which the scheduler has told another version
        self.doubted: list[str] = []
        self.forgotten: list[str] = []
        self.times: Wheel[str] = Wheel()
        self.report: Callable[..., None] = lambda *_: None
        self.woken: Callable[[str], None] = lambda _: None

    def reserve(self, pod: str, *claims: str, node: str = "node-1", device: str = "gpu-0") -> None:
        """Reserve a device for each claim of a pod; an allocated claim keeps its allocation."""
        if self._cluster.node_of(pod) is None:
            self._cluster.put_pod(pod, claims=claims)
        consumer = self.group or Consumer.of_pod(pod, f"uid-{pod}")
        reserved = tuple(
            self._reserve_claim(name, consumer, device, i) for i, name in enumerate(claims)
        )
        for name in claims:
            self.users[name][pod] = None
            self._observed_before[name] = len(self.observed)
        self.pods[f"uid-{pod}"] = PodReservation("n", pod, f"uid-{pod}", node, reserved)

    def _reserve_claim(
        self, name: str, consumer: Consumer, device: str, number: int
    ) -> ClaimReservation:
        claim = self._cluster.claims["n", name]
        if claim.status.allocation is not None:
            allocated = claim.status.allocation
            return ClaimReservation("n", name, f"uid-{name}", consumer, allocated=allocated)
        result = AllocationResult(request="r", driver="d.io", pool="p", device=f"{device}-{number}")
        allocation = Allocation(AllocatedDevices((result,)))
        mark = format_mark(make_mark(allocation, lambda *_: ()))
        return ClaimReservation("n", name, f"uid-{name}", consumer, allocation, mark)

    @property
    def reservations(self) -> "FakeReservations":
        """What is reserved."""
        return self

    def find(self, pod_uid: str) -> PodReservation | None:
        """Return what is reserved for a pod."""
        return self.pods.get(pod_uid)

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        """Return the first version of a pod: the watch is behind."""
        version = self._cluster.first_versions.get(name, "")
        metadata = NamedPodMetadata(
            name=name, namespace=namespace, uid=f"uid-{name}", resource_version=version
        )
        return Pod(metadata=metadata) if self._cluster.node_of(name) is not None else None

    def claims_of(self, pod_uid: str) -> tuple[Claim, ...]:
        """Return the claims of a pod, and those that are reserved for it."""
        asked = {each.name for each in self.pods[pod_uid].claims}
        return tuple(
            claim
            for (_, name), claim in self._cluster.claims.items()
            if name in asked or any(each.uid == pod_uid for each in claim.status.reserved_for)
        )

    def server_time(self) -> float:
        """Return the time of the API server."""
        return NOW

    def penalise(self, device: DeviceID) -> None:
        """Note a device that failed."""
        self.penalised.append(device.name)

    def note_dropped(self, fields: Collection[str]) -> None:
        """Note fields that a response lacked."""
        self.dropped |= set(fields)

    def wake_at(self, pod_uid: str, at: float) -> None:
        """Tell at a time that a pod is woken, once."""
        if at <= asyncio.get_running_loop().time():
            self.woken(pod_uid)
        elif self.times.get("retry", pod_uid) is None:
            self.times.set("retry", pod_uid, at)
            asyncio.get_running_loop().call_at(at, self._wake, pod_uid)

    def _wake(self, pod_uid: str) -> None:
        self.times.set("retry", pod_uid, None)
        self.woken(pod_uid)

    @property
    def cluster(self) -> SimpleNamespace:
        """What the real state has of the cluster, and of conflicts."""
        told = (*self._cluster.claims.values(), *self.unwatched)
        claims = {each.metadata.uid: each for each in told}
        conflicts = SimpleNamespace(
            find_contest=self.find_contest,
            list_contests=self.list_contests,
            describe=partial(Conflicts.describe, self._names),
        )
        # The watch of this cluster shows all pods that are bound.
        pods = SimpleNamespace(note_bound=self.bound.append, release=self.release)
        records = {uid: SimpleNamespace(is_confirmed=False) for uid in self.told}
        ledger = SimpleNamespace(claims=records, doubt=lambda _, uid: self.doubted.append(uid))
        return SimpleNamespace(claims=claims, conflicts=conflicts, pods=pods, ledger=ledger)

    @contextlib.contextmanager
    def release(self, claim: Claim) -> Iterator[None]:
        """Note the version of a claim that no pod uses."""
        self.unused.append(claim)
        yield

    @property
    def _names(self) -> Any:  # noqa: ANN401  # as much of the conflicts as a description needs
        records = {
            each.metadata.uid: SimpleNamespace(
                name=name_of(each), namespace=each.metadata.namespace
            )
            for each in self._cluster.claims.values()
        }
        return SimpleNamespace(_ledger=SimpleNamespace(claims=records))

    def list_claims(self) -> list[Claim]:
        """Return the claims as stored."""
        return list(self._cluster.claims.values())

    def shows(self, claim: Claim) -> bool:
        """Whether the watch shows a claim."""
        uid = claim.metadata.uid
        return uid in self.shown or uid not in {each.metadata.uid for each in self.unwatched}

    def forget_claim(self, claim: Claim) -> None:
        """Note which claim is gone."""
        self.forgotten.append(claim.metadata.uid)
        self.unwatched.remove(claim)

    def find_contest(self, claim_uid: str) -> ContestedClaim | None:
        """Return the conflict of a claim that is allocated."""
        claim = self.find_claim(claim_uid)
        is_allocated = claim is not None and claim.status.allocation is not None
        return self.contested.get(claim_uid) if is_allocated else None

    def list_contests(self) -> list[ContestedClaim]:
        """Return the conflicts of claims that are allocated."""
        return [each for each in map(self.find_contest, self.contested) if each is not None]

    def find_claim(self, claim_uid: str) -> Claim | None:
        """Return a claim as stored."""
        return self._cluster.claims.get(("n", claim_uid.removeprefix("uid-")))

    def users_of(self, claim: Claim) -> tuple[PodName, ...]:
        """Return the pods that a reservation of a claim was ever made for."""
        return tuple(PodName("n", each, f"uid-{each}") for each in self.users[claim.metadata.name])

    def begin_write(self, pod_uid: str) -> str:
        """Begin, unless a test refuses."""
        self.begun.append(pod_uid)
        return self.refusal

    def end_write(self, pod_uid: str, *, written: bool) -> None:
        """Record the end."""
        self.ended.append((pod_uid, written))
        if not written:
            del self.pods[pod_uid]

    def hold_marked(self, claim: Claim) -> None:
        """Record a claim whose marked devices count as held."""
        self.held.append(claim.metadata.name)

    @property
    def decisions(self) -> "FakeReservations":
        """What forgets reservations."""
        return self

    def end_term(self) -> None:
        """Forget all reservations."""
        self.pods.clear()

    begin_term = end_term

    def observe_claim(self, claim: Claim) -> None:
        """Record a version."""
        self.observed.append(claim)

    @property
    def fences(self) -> "FakeReservations":
        """What follows the Lease."""
        return self

    def follow_lease(self) -> None:
        """Look at what the Lease requires; a test replaces it by one that finds something."""

    def find_lost_device(self, _claim: ClaimReservation) -> str:
        """Return which device went to another owner."""
        return self.lost

    def keeps(self, reserved: ClaimReservation) -> bool:
        """Whether a pod has this reservation; it ends when the claim is seen with an allocation."""
        seen = self.observed[self._observed_before.get(reserved.name, 0) :]
        return any(reserved in pod.claims for pod in self.pods.values()) and not any(
            claim.status.allocation and claim.metadata.uid == reserved.uid for claim in seen
        )

    def is_reserved(self, claim_uid: str) -> bool:
        """Whether a pod has a reservation of a claim."""
        return any(c.uid == claim_uid for pod in self.pods.values() for c in pod.claims)
