"""The only write path of the allocator: marks and allocates the claims of a pod, then binds it.

The order is fixed. All claims get the allocation mark and the finalizer. Then the Lease is read
again, because a kube-scheduler that ends releases it at once. Then each claim gets its
allocation and the pod as a consumer, at the version that the mark has. Then the devices must
report their binding conditions. Then the pod is bound, at a version at which it names these
claims. Every write is behind the fence of the scheduler's Lease, and what it was decided on is
looked at again each time that it is sent. A new leader removes unfinished marks first, so that an
allocation that an earlier leader sent late has an outdated version.

Every step can be repeated. A step that fails before an allocation is written is undone. Written
allocations stay: the next attempt finds them, and `release` removes them, once the pod has another
version than the bindings that were sent before name: it would run without its devices.
"""

import asyncio
import enum
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from allocator.scheduler.protocol import PostFilterReply
from allocator.state.caches import AllocatorCaches
from allocator.state.live_state import LiveState
from allocator.state.records import PodReservation
from allocator.state.reports import about_claim
from allocator.writes.binding_conditions import (
    AllocationAges,
    BindingState,
    Readiness,
    readiness,
)
from allocator.writes.claims import BindRefusedError, ClaimWriter
from allocator.writes.cluster_writes import ClusterWrites, PodName, PodPlace
from allocator.writes.undoing import CONCURRENT_WRITES, Undoing, Unfinished
from allocator.writes.write_slots import WriteSlot, WriteSlots
from drawbridge.agreement import allocator_codes as codes
from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import NotLeadingError
from drawbridge.dra.allocation import MAX_CONSUMERS
from drawbridge.dra.claim import Claim
from drawbridge.ledger.allocation_mark import can_be_released
from drawbridge.ledger.ledger import name_of
from drawbridge.resource_version import parse_version

_LOG: Final = logging.getLogger("allocator.writes.binding")
BINDING_ATTEMPTS: Final = 3
RETRY_SECONDS: Final = 5.0
# The plugin waits for 120 s, and the pod is tried again while a call that it gave up could go on.
CALL_SECONDS: Final = 115.0
_TOO_LONG: Final = f"the binding took longer than {CALL_SECONDS:g} s; the pod is tried again"


class BindOutcome(enum.StrEnum):
    """How an attempt to bind a pod ended."""

    BOUND = enum.auto()
    WAITS = enum.auto()  # the claims are allocated, and their devices are not ready
    FAILED = enum.auto()


class Attempt(NamedTuple):
    """An attempt to bind a pod that has ended, and what the condition of the pod says of it."""

    outcome: BindOutcome
    message: str


class BindingTimes(NamedTuple):
    """How long a call waits for binding conditions, and when they must be true, in seconds.

    `timeout` counts from the allocation.
    """

    wait: float
    timeout: float


class PodBinder:
    """Binds pods, with one call at a time for each pod.

    `leads` tells whether the recovery of the current term has finished.
    """

    def __init__(
        self,
        state: LiveState,
        writes: ClusterWrites,
        claims: AllocatorCaches,
        *,
        leads: Callable[[], bool],
        times: BindingTimes,
    ) -> None:
        self._state = state
        self._writes = writes
        self._cache = claims
        self._leads = leads
        self._times = times
        self._ages = AllocationAges(times.timeout)
        self._slots = WriteSlots()
        # By pod and claim, as long as a call has the lock or waits for it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._term = 0
        # Failed writes whose effect is unknown, or whose marks could not be removed.
        self.undoing = Undoing()

    def end_term(self) -> None:
        """End all calls in progress before their next write: their reservations are gone."""
        self._term += 1
        self.undoing.clear()

    def is_writing(self, pod_uid: str) -> bool:
        """Whether a call for this pod is in progress."""
        return pod_uid in self._locks

    async def bind(self, pod_uid: str, node: str) -> Attempt:
        """Allocate the claims of a pod and bind it to the node of its reservation, in time."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await self._bind_in_turn(pod_uid, node)
        except TimeoutError:
            return Attempt(BindOutcome.FAILED, _TOO_LONG)

    async def _bind_in_turn(self, pod_uid: str, node: str) -> Attempt:
        async with self._locked(pod_uid):
            reservation = self._state.reservations.find(pod_uid)
            if reservation is None or reservation.node != node:
                message = f"no devices are reserved for the pod on node {node}"
                return Attempt(BindOutcome.FAILED, message)
            if refusal := self._state.reservations.begin_write(pod_uid):
                return Attempt(BindOutcome.FAILED, refusal)
            self.undoing.discard(pod_uid)
            return await self._bind_reserved(reservation, self._term)

    async def release(self, pod_uid: str) -> PostFilterReply:
        """Deallocate the claims that only this pod uses, unless it is bound.

        If that is not possible now, the pod is woken later: no change of the cluster would do it.
        """
        async with self._locked(pod_uid):
            released, failed = list[str](), list[str]()
            for claim in self._state.claims_of(pod_uid):
                try:
                    released += await self._release(pod_uid, claim)
                except (ApiError, NotLeadingError) as error:
                    failed.append(f"{error}")
                    if not isinstance(error, ApiError) or not error.refused:
                        break  # a policy can refuse the change of one claim
            if failed:
                self._state.wake_at(pod_uid, _loop_time() + RETRY_SECONDS)
            return PostFilterReply(released=tuple(released), message="".join(failed[:1]))

    def _locked(self, uid: str) -> asyncio.Lock:
        """Return the lock of a pod or a claim; nobody but `async with` may refer to it."""
        return self._locks.setdefault(uid, asyncio.Lock())

    async def _bind_reserved(self, reservation: PodReservation, term: int) -> Attempt:
        claims = self._make_claim_writer(term)
        slot = self._slots.queue(reservation.namespace)
        place = self._last_place(_pod_of(reservation))
        try:
            allocated = await self._allocate(reservation, claims, slot)
            waiting = await self._wait_for_devices(reservation.uid, allocated)
            if not waiting:
                await self._bind(reservation, place, claims, slot)
        except (BindRefusedError, ApiError, NotLeadingError) as error:
            if self._term == term:
                self._undo_soon(reservation)
                await self._undo_now(reservation)
            return Attempt(BindOutcome.FAILED, f"{error}")
        except BaseException:
            # After a bug, or when the call took too long, what was written is undone later.
            if self._term == term:
                self._undo_soon(reservation)
            raise
        finally:
            self._state.note_dropped(claims.dropped)
        if self._term == term:
            self._state.reservations.end_write(reservation.uid, written=True)
        return Attempt(BindOutcome.WAITS if waiting else BindOutcome.BOUND, waiting)

    def interrupt(self, claim_uid: str) -> None:
        """Let the calls that wait for the devices of a claim look whether it has to yield."""
        self._cache.end_waiting(claim_uid)

    def _check_contests(self, claim_uids: Iterable[str]) -> None:
        """Raise BindRefusedError if an allocation of ours has to yield."""
        for contest in filter(None, map(self._state.cluster.conflicts.find_contest, claim_uids)):
            message = self._state.cluster.conflicts.describe(contest)
            raise BindRefusedError(f"{message}; the pod is tried again")

    def _check_term(self, term: int) -> None:
        # Another scheduler may have led meanwhile, also if this one leads again by now.
        if self._term != term or not self._leads():
            raise BindRefusedError("the term of the scheduler ended during the binding")

    def _make_claim_writer(self, term: int) -> ClaimWriter:
        return ClaimWriter(
            self._writes,
            self._cache,
            self._state,
            check=lambda: self._check_term(term),
        )

    async def _allocate(
        self, reservation: PodReservation, claims: ClaimWriter, slot: WriteSlot
    ) -> list[Claim]:
        marked, allocated = [], []
        for reserved in reservation.claims:
            # Each write changes the version of a claim, so that pods that share it take turns.
            async with self._locked(reserved.uid), slot():
                marked.append(await claims.mark(reserved))
        # Nobody joins those who wait for a device that has failed, and leave it one by one.
        await self._find_unready(reservation.uid, marked)
        for live, reserved in zip(marked, reservation.claims, strict=True):
            async with self._locked(reserved.uid), slot():
                allocated.append(await claims.allocate(live, reserved))
        return allocated

    async def _wait_for_devices(self, pod_uid: str, allocated: Sequence[Claim]) -> str:
        """Wait until all devices are ready; returns what is missing when the call must end."""
        claims = list(allocated)
        deadline = _loop_time() + self._times.wait
        while True:
            self._check_contests(each.metadata.uid for each in claims)
            missing = await self._find_unready(pod_uid, claims)
            if not missing:
                return ""
            remaining = deadline - _loop_time()
            if remaining <= 0:
                return missing
            claims = await self._changed(claims, min(remaining, 5.0))

    async def _find_unready(self, pod_uid: str, claims: Sequence[Claim]) -> str:
        """Return what is missing; a pod whose device has failed gives its claims back."""
        binding_state = self._readiness(claims)
        if binding_state.state is Readiness.FAILED:
            if binding_state.device is not None:
                self._state.penalise(binding_state.device)
            if binding_state.told is not None:
                self._state.report(binding_state.told)
            for claim in claims:
                await self._release(pod_uid, claim)
            raise BindRefusedError(binding_state.missing)
        return binding_state.missing

    def _readiness(self, claims: Iterable[Claim]) -> BindingState:
        server_time, now = self._state.server_time(), _loop_time()
        return readiness(
            claims, lambda claim: self._ages.find(claim, server_time, now), self._times.timeout
        )

    async def _changed(self, claims: Sequence[Claim], seconds: float) -> list[Claim]:
        """Wait until one of the claims changes, at most for some seconds; return all of them."""
        changes = [self._cache.next_change(each) for each in claims]
        await asyncio.wait(changes, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        current = []
        for claim in claims:
            namespace, name, uid = claim.metadata.namespace, claim.metadata.name, claim.metadata.uid
            live = self._cache.get(namespace, name)
            if live is None or live.metadata.uid != uid:
                # No watch shows it, or none has told of it yet.
                live = await self._writes.read_claim(namespace, name)
            if live is None or live.metadata.uid != uid:
                raise BindRefusedError(f"claim {name_of(claim)} was deleted")
            if _version(live) < _version(claim):
                live = claim  # the watch is behind the response
            if live.status.allocation is None:
                raise BindRefusedError(f"claim {name_of(claim)} was deallocated meanwhile")
            current.append(live)
        return current

    async def _bind(
        self,
        reservation: PodReservation,
        place: PodPlace | None,
        claims: ClaimWriter,
        slot: WriteSlot,
    ) -> None:
        """Bind the pod as it was seen before its claims were written the last time.

        Whoever releases them changes the pod after it has read them, and before it writes them. So
        a request that is sent late names an earlier version of the pod, or the release one of a
        claim.
        """
        pod = _pod_of(reservation)

        def check() -> None:
            claims.check()
            self._check_contests(each.uid for each in reservation.claims)

        for attempt in range(1, BINDING_ATTEMPTS + 1):
            if place is None:
                place = await self._read_unbound(pod, reservation.node)
                if place is None:
                    break
                await self._allocate(reservation, claims, slot)
            await self._check_claims(place, reservation)
            check()
            try:
                async with slot():
                    with self._noting_bound(pod.uid):
                        await self._writes.bind(pod, reservation.node, place.version, check)
                break
            except ApiError as error:
                current = await self._read_unbound(pod, reservation.node)
                if current is None:
                    break  # an earlier request has bound it
                is_outdated = error.conflict and current.version != place.version
                if not (error.unknown or is_outdated) or attempt == BINDING_ATTEMPTS:
                    raise
                place = None
        self._state.cluster.pods.note_bound(pod.uid)

    @contextmanager
    def _noting_bound(self, pod_uid: str) -> Iterator[None]:
        """Note a pod whose binding got no answer: it may be bound, and vanish then."""
        try:
            yield
        except (ApiError, asyncio.CancelledError) as error:
            if not isinstance(error, ApiError) or error.unknown:
                self._state.cluster.pods.note_bound(pod_uid)
            raise

    async def _check_claims(self, place: PodPlace, reservation: PodReservation) -> None:
        """Raise BindRefusedError if the pod names a claim that is not allocated for it.

        The controller that generates claims can make one again that it does not see yet, and note
        the new name. What the pod does not name any more is released.
        """
        reserved = {each.name for each in reservation.claims}
        others = sorted(place.claims - reserved)
        used = place.claims if others else place.claims | reserved
        for claim in self._state.claims_of(reservation.uid):
            if claim.metadata.name not in used:
                await self._release(reservation.uid, claim)
        if others:
            raise BindRefusedError(f"the pod names another claim by now: {', '.join(others)}")

    def _last_place(self, pod: PodName) -> PodPlace | None:
        """Return the pod as last seen; None if it was not."""
        seen = self._state.find_pod(pod.namespace, pod.name)
        if seen is None or seen.metadata.uid != pod.uid:
            return None
        return PodPlace("", seen.metadata.resource_version, frozenset(seen.claim_names))

    async def _read_unbound(self, pod: PodName, node: str) -> PodPlace | None:
        """Read a pod; None if it is bound to a node. Raises BindRefusedError if it cannot be."""
        place = await self._writes.read_place(pod)
        if place is None:
            raise BindRefusedError("the pod was deleted")
        if place.node not in ("", node):
            raise BindRefusedError(f"the pod is already bound to node {place.node}")
        return None if place.node else place

    def _undo_soon(self, reservation: PodReservation) -> None:
        about = Unfinished(
            reservation.namespace, reservation, self._undo_later, self._report_unfinished
        )
        self.undoing.add(reservation.uid, about)

    async def _undo_now(self, reservation: PodReservation) -> None:
        try:
            await self._undo(reservation)
        except (ApiError, NotLeadingError) as error:
            name = reservation.full_name
            _LOG.debug("cannot undo the failed write for pod %s yet: %s", name, error)

    async def _undo_later(self, reservation: PodReservation) -> None:
        async with self._locked(reservation.uid):
            # A call that began meanwhile continues or undoes it.
            if self._state.reservations.find(reservation.uid) is reservation:
                await self._undo(reservation)

    async def _undo(self, reservation: PodReservation) -> None:
        """Remove the marks of claims that have no allocation, and their reservations.

        The devices stay reserved until the claim can be read. By then, the reservation of
        an allocated claim has ended, because its allocation was observed.
        """
        claims = self._make_claim_writer(self._term)
        for claim in reservation.claims:
            await claims.unmark(claim)
        if self._state.reservations.find(reservation.uid) is reservation:
            self.undoing.discard(reservation.uid)
            self._state.reservations.end_write(reservation.uid, written=False)

    def _report_unfinished(self, reservation: PodReservation, problem: str) -> None:
        name = reservation.full_name
        for reserved in reservation.claims:
            claim = self._cache.get(reserved.namespace, reserved.name)
            if claim is not None:
                message = f"the devices for pod {name} stay reserved: {problem}"
                told = about_claim(codes.WRITE_NOT_UNDONE, claim, message, "metadata")
                self._state.report(told)

    # --- taking back ---

    async def _release(self, pod_uid: str, claim: Claim) -> list[str]:
        """Deallocate a claim that nothing but this unbound pod uses, unless others allocated it.

        Returns the name of the claim if it was deallocated.
        """
        metadata = claim.metadata
        async with self._locked(metadata.uid):
            live = await self._writes.read_claim(metadata.namespace, metadata.name)
            if live is None or live.metadata.uid != metadata.uid:
                return []
            self._state.observe_claim(live)
            if not can_be_released(live):
                return []
            return await self._leave(pod_uid, live)

    async def _leave(self, pod_uid: str, live: Claim) -> list[str]:
        """Remove an unbound pod from the consumers of a claim; the last one deallocates it."""
        own = [each for each in live.status.reserved_for if each.uid == pod_uid]
        others = tuple(each for each in live.status.reserved_for if each.uid != pod_uid)
        if others and all(each.is_pod_group for each in others):
            released = await self._deallocate_for_group(pod_uid, live)
            if released:
                return released
        if others and not own:
            return []
        pods = [PodName(live.metadata.namespace, each.name, each.uid) for each in own]
        places = [(pod, await self._writes.read_place(pod)) for pod in pods]
        release = await self._end_bindings(places, live)
        if release is None:
            return []
        if not others:
            return await self._deallocate(live, release)
        with release:
            self._state.observe_claim(await self._writes.set_consumers(live, others))
        return []

    async def _deallocate_for_group(self, pod_uid: str, claim: Claim) -> list[str]:
        """Deallocate the claim of a group unless a member has a node or gets one.

        A member that gets one meanwhile gives the claim another version first.
        """
        others = [each.uid for each in self._state.users_of(claim) if each.uid != pod_uid]
        # No member gets a node with a device that has failed; all who wait for it end at once.
        if self._readiness([claim]).state is not Readiness.FAILED and any(
            self.is_writing(uid) or self._state.reservations.find(uid) for uid in others
        ):
            return []
        # The watch of this process can be behind that of the one that bound a member.
        members = await self._writes.list_users(claim)
        if len(members) > MAX_CONSUMERS:
            return []
        release = await self._end_bindings(members, claim)
        return [] if release is None else await self._deallocate(claim, release)

    async def _deallocate(self, live: Claim, release: AbstractContextManager[None]) -> list[str]:
        with release:
            live = await self._writes.deallocate(live)
            self._state.observe_claim(live)
        self._state.observe_claim(await self._writes.unmark(live))
        return [name_of(live)]

    async def _end_bindings(
        self, pods: Sequence[tuple[PodName, PodPlace | None]], claim: Claim
    ) -> AbstractContextManager[None] | None:
        """Let no binding that was sent before have an effect; None if one of the pods has a node.

        Returns what the release of the claim is done within. A pod that is gone may have run.
        """
        if _has_node(place for _, place in pods):
            return None
        places: list[PodPlace | None] = []
        for start in range(0, len(pods), CONCURRENT_WRITES):
            some = [pod for pod, place in pods[start : start + CONCURRENT_WRITES] if place]
            places += await asyncio.gather(*(self._writes.end_bindings(e, claim) for e in some))
        if _has_node(places):
            return None
        is_sure = len(places) == len(pods) and None not in places
        return self._state.cluster.pods.release(claim) if is_sure else nullcontext()


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def _has_node(places: Iterable[PodPlace | None]) -> bool:
    return any(place is not None and place.node for place in places)


def _pod_of(reservation: PodReservation) -> PodName:
    return PodName(reservation.namespace, reservation.name, reservation.uid)


def _version(claim: Claim) -> int:
    return parse_version(claim.metadata.resource_version)
