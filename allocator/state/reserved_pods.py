"""The reservations of pods: which claims of a pod are promised, until when, and who shares them.

A claim is reserved once, also if several pods use it. Its reservation ends when the last of them
gives it back. The ledger has the devices; this module has the pods.

The scheduler holds a pod between Reserve and Bind, for example while a volume is provisioned. It
names the pods that it holds each second, and their reservations are renewed, within limits.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from allocator.decisions.pod_requests import PodRequest, consumer_of
from allocator.state.cluster_state import AllocatorState
from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.allocation import Allocation, Consumer
from drawbridge.dra.claim import Claim
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.taints import first_untolerated
from drawbridge.ledger.allocation_mark import format_mark, make_mark
from drawbridge.ledger.ledger import Reservation, ReservationRefusal, uid_of

# How long a reservation lasts that is not renewed.
RESERVATION_SECONDS: Final = 30.0
# How long a pod that is woken can count on the devices that were found for it.
PROMISE_SECONDS: Final = 2.0
# How long the devices of a pod are held between the end of the cycle for its group, where the
# scheduler gives all members back, and the time when it reserves them one by one.
HOLD_SECONDS: Final = 5.0
MAX_EXPIRED: Final = 4096


class HoldLimits(NamedTuple):
    """How long a reservation can be renewed, and for how many devices of one namespace.

    By default as long as kube-scheduler holds a pod: at most 15 minutes at Permit (`maxTimeout`),
    and then 600 s while its volumes are bound (`bindTimeoutSeconds` of VolumeBinding).
    """

    seconds: float = 1500.0
    devices: int = 64


DEFAULT_LIMITS: Final = HoldLimits()


class ClaimReservation(msgspec.Struct, frozen=True):
    """What to write into one claim.

    Without `allocation` the claim is allocated already, and only `consumer` is added: the pod, or
    its group. `mark` is the text of the annotation `drawbridge.dev/allocation`.
    """

    namespace: str
    name: str
    uid: str
    consumer: Consumer
    allocation: Allocation | None = None
    mark: str = ""

    @property
    def full_name(self) -> str:
        """The namespace and the name: `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class PodReservation(msgspec.Struct, frozen=True):
    """The node and the devices that are reserved for one pod."""

    namespace: str
    name: str
    uid: str
    node: str
    claims: tuple[ClaimReservation, ...] = ()

    @property
    def full_name(self) -> str:
        """The namespace and the name: `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class _PromisedClaim(msgspec.Struct, frozen=True):
    """The allocation that is reserved for a claim; `users` are the pods that count on it."""

    reservation: Reservation
    users: frozenset[str]


class _ReservedPod(msgspec.Struct, frozen=True):
    reservation: PodReservation
    since: float
    until: float
    writing: bool = False
    # Whether the pod was woken and the scheduler has not reserved it yet.
    promised: bool = False
    priority: int = 0

    def is_renewed(self, now: float) -> bool:
        """Whether the reservation is older than one that is not renewed."""
        return not self.promised and now - self.since > RESERVATION_SECONDS

    def count_devices(self) -> int:
        """Return how many devices are reserved for the pod."""
        allocations = (each.allocation for each in self.reservation.claims)
        return sum(len(each.devices.results) for each in allocations if each)


class ReservedPods:
    """The pods with a reservation, and the claims that are reserved for them."""

    def __init__(self, state: AllocatorState, limits: HoldLimits) -> None:
        self._state = state
        self._limits = limits
        self._pods: dict[str, _ReservedPod] = {}
        self._claims: dict[str, _PromisedClaim] = {}
        # The nodes of the reservations that expired while the scheduler counted on them.
        self._expired: BoundedCache[str, str] = BoundedCache(MAX_EXPIRED)
        # The namespaces of the pods that took over what was promised to others.
        self._takers: BoundedCache[str, str] = BoundedCache(MAX_EXPIRED)
        self._protected: set[str] = set()

    # --- questions ---

    def find(self, pod_uid: str) -> PodReservation | None:
        """Return the reservation of a pod."""
        reserved = self._pods.get(pod_uid)
        return reserved.reservation if reserved else None

    def has_expired(self, pod_uid: str, node: str) -> bool:
        """Whether a reservation expired that was not given back, and none was made since."""
        return pod_uid not in self._pods and self._expired.get(pod_uid) == node

    def is_promised(self, pod_uid: str) -> bool:
        """Whether devices are promised to a pod that the scheduler has not reserved."""
        reserved = self._pods.get(pod_uid)
        return reserved is not None and reserved.promised and not reserved.writing

    def is_writing(self, pod_uid: str) -> bool:
        """Whether the reservation of a pod is being written."""
        reserved = self._pods.get(pod_uid)
        return reserved is not None and reserved.writing

    def allocation_of(self, claim_uid: str) -> Allocation | None:
        """Return the allocation that is reserved for a claim."""
        promised = self._claims.get(claim_uid)
        return promised.reservation.allocation if promised else None

    def is_reserved(self, claim_uid: str) -> bool:
        """Whether devices are reserved for a claim."""
        return claim_uid in self._state.ledger.reservations

    def users(self) -> Mapping[str, Collection[str]]:
        """Return the pods with a reservation by claim, also of claims that are allocated."""
        pods_by_claim: dict[str, list[str]] = {}
        for uid, reserved in self._pods.items():
            for claim in reserved.reservation.claims:
                pods_by_claim.setdefault(claim.uid, []).append(uid)
        return pods_by_claim

    def promised_claims(self, pod_uids: Iterable[str]) -> Iterator[str]:
        """Yield the UIDs of the claims without an allocation that are promised to pods."""
        for uid in filter(self.is_promised, pod_uids):
            claims = self._pods[uid].reservation.claims
            yield from (each.uid for each in claims if each.allocation is not None)

    def promised_below(self, priority: int) -> Iterator[PodReservation]:
        """Yield the reservations of pods that were woken, and that are not scheduled yet."""
        return (
            each.reservation
            for uid, each in self._pods.items()
            if each.promised and each.priority < priority and uid not in self._protected
        )

    def keeps(self, claim: ClaimReservation) -> bool:
        """Whether these devices are still reserved for the claim, and not yet written."""
        promised = self._claims.get(claim.uid)
        return (
            promised is not None
            and promised.reservation.allocation == claim.allocation
            and claim.uid in self._state.ledger.reservations
        )

    def count_renewed_devices(self, now: float) -> int:
        """Return how many devices are reserved longer than without a renewal."""
        return sum(each.count_devices() for each in self._pods.values() if each.is_renewed(now))

    # --- reserving ---

    def reserve(
        self,
        request: PodRequest,
        node: str,
        solved: Mapping[str, Allocation],
        now: float,
        *,
        promised: bool = False,
    ) -> ReservationRefusal | None:
        """Reserve the claims of a pod on a node; `solved` has the new allocations by UID."""
        state = self._state
        wanted = {
            uid: self._claims.get(uid) or self._new_promise(solved[uid])
            for uid in request.claims
            if state.claims[uid].status.allocation is None
        }
        new = {uid: each.reservation for uid, each in wanted.items()}
        view, pools = state.ledger.view(), state.planner.pools_for(node)
        if refusal := state.ledger.assume(new, view=view, pools=pools):
            return refusal
        pod = request.pod
        self._takers.pop(pod.uid)
        for uid, promised_claim in wanted.items():
            users = promised_claim.users | {pod.uid}
            self._claims[uid] = msgspec.structs.replace(promised_claim, users=users)
        claims = tuple(
            self._claim_reservation(state.claims[uid], consumer_of(pod, uid))
            for uid in request.claims
        )
        reservation = PodReservation(pod.namespace, pod.name, pod.uid, node, claims)
        until = now + (PROMISE_SECONDS if promised else RESERVATION_SECONDS)
        self._pods[pod.uid] = _ReservedPod(
            reservation, now, until, promised=promised, priority=pod.priority
        )
        return None

    def confirm(self, pod_uid: str, now: float) -> None:
        """Make a promise a reservation; a reservation is renewed."""
        reserved = self._pods[pod_uid]
        if reserved.promised:
            reserved = msgspec.structs.replace(reserved, promised=False, since=now)
        self._extend(reserved, now)

    def prolong(self, pod_uid: str, until: float) -> None:
        """Let a promise last until a time."""
        reserved = self._pods.get(pod_uid)
        if reserved is not None and reserved.promised:
            self._pods[pod_uid] = msgspec.structs.replace(reserved, until=until)

    def hold(self, pod_uid: str, now: float) -> bool:
        """Make a reservation a promise for a short time; False if there is none to hold."""
        reserved = self._pods.get(pod_uid)
        if reserved is None or reserved.writing:
            return False
        until = now + HOLD_SECONDS
        self._pods[pod_uid] = msgspec.structs.replace(reserved, promised=True, until=until)
        return True

    def renew(self, pod_uids: Iterable[str], now: float) -> None:
        """Extend the reservations of the pods that the scheduler holds.

        In a namespace, those that are renewed for a long time come first. So a pod never loses its
        devices to the limit because of a later one.
        """
        held = [self._pods[uid] for uid in dict.fromkeys(pod_uids) if uid in self._pods]
        devices: Counter[str] = Counter()
        for reserved in sorted(held, key=lambda each: each.since):
            if reserved.promised:
                continue  # the scheduler has not reserved the pod since it gave it up
            if reserved.is_renewed(now):
                namespace = reserved.reservation.namespace
                devices[namespace] += reserved.count_devices()
                if devices[namespace] > self._limits.devices:
                    continue
            self._extend(reserved, now)

    def _extend(self, reserved: _ReservedPod, now: float) -> None:
        until = min(now + RESERVATION_SECONDS, reserved.since + self._limits.seconds)
        later = msgspec.structs.replace(reserved, until=max(reserved.until, until))
        self._pods[reserved.reservation.uid] = later

    def _new_promise(self, allocation: Allocation) -> _PromisedClaim:
        mark = make_mark(allocation, self._state.planner.counter_uses)
        return _PromisedClaim(Reservation(allocation, mark), frozenset())

    def _claim_reservation(self, claim: Claim, consumer: Consumer) -> ClaimReservation:
        metadata = claim.metadata
        about = (metadata.namespace, metadata.name, metadata.uid, consumer)
        promised = self._claims.get(uid_of(claim))
        if promised is None or claim.status.allocation is not None:
            return ClaimReservation(*about)
        mark = format_mark(promised.reservation.mark)
        allocation = promised.reservation.allocation
        return ClaimReservation(*about, allocation, mark)

    # --- giving back ---

    def release(self, pod_uid: str) -> None:
        """Remove the reservation of a pod, unless it is being written."""
        self._expired.pop(pod_uid)
        reserved = self._pods.get(pod_uid)
        if reserved is not None and not reserved.writing:
            self._remove(pod_uid)

    def give_up(self, pod_uid: str, taker: str) -> None:
        """Remove a promise, because a pod of the namespace `taker` has a higher priority."""
        self.release(pod_uid)
        self._takers.put(pod_uid, taker)

    def taker_of(self, pod_uid: str) -> str | None:
        """Return the namespace of the pod that took over what was promised to this one."""
        return self._takers.get(pod_uid)

    def protect(self, pod_uids: Iterable[str]) -> None:
        """Let no pod take over what is promised to these, whatever its priority."""
        self._protected.update(pod_uids)

    def expose(self, pod_uids: Iterable[str]) -> None:
        """Let pods with a higher priority take over what is promised to these again."""
        self._protected.difference_update(pod_uids)

    def release_promised(self, pod_uids: Iterable[str]) -> None:
        """Remove what is promised to pods, and not what the scheduler has reserved for them."""
        for uid in pod_uids:
            if self.is_promised(uid):
                self.release(uid)

    def expire(self, now: float) -> tuple[str, ...]:
        """Remove the reservations whose time is over; return the UIDs of their pods."""
        expired = [
            uid
            for uid, reservation in self._pods.items()
            if reservation.until <= now and not reservation.writing
        ]
        for uid in expired:
            reserved = self._pods[uid]
            self._remove(uid)
            if not reserved.promised:
                self._expired.put(uid, reserved.reservation.node)
        return tuple(expired)

    def clear(self) -> None:
        """Remove all reservations, because another process decides now."""
        self._state.ledger.rollback(tuple(self._claims))
        self._pods.clear()
        self._claims.clear()
        self._expired.clear()
        self._takers.clear()
        self._protected.clear()

    def _remove(self, pod_uid: str) -> None:
        reserved = self._pods.pop(pod_uid)
        for claim in reserved.reservation.claims:
            promised = self._claims.get(claim.uid)
            if promised is None:
                continue
            users = promised.users - {pod_uid}
            if users:
                self._claims[claim.uid] = msgspec.structs.replace(promised, users=users)
            else:
                del self._claims[claim.uid]
                # A write that had the reservation has ended.
                self._state.ledger.rollback((claim.uid,))

    # --- writing ---

    def begin_write(self, pod_uid: str) -> str:
        """Keep a reservation from expiring; return why it cannot be written, or ""."""
        reserved = self._pods.get(pod_uid)
        if reserved is None:
            return "the reservation expired; the pod is tried again"
        claims = reserved.reservation.claims
        problem = self._lost_claim(claims) or self._lost_device(claims)
        if not problem and self._state.ledger.has_conflict(each.uid for each in claims):
            problem = f"cannot write the allocation: {ReservationRefusal.HELD}"
        if not problem:
            self._pods[pod_uid] = msgspec.structs.replace(reserved, writing=True)
        elif not reserved.writing:
            self._remove(pod_uid)
        return problem

    def end_write(self, pod_uid: str, *, written: bool) -> None:
        """End a write; without `written`, remove what is reserved and not allocated."""
        reserved = self._pods.get(pod_uid)
        if reserved is None:
            return
        if not written:
            self._remove(pod_uid)
            return
        del self._pods[pod_uid]
        for claim in reserved.reservation.claims:
            # The reservation in the ledger ends with the allocation that the API server reports.
            self._claims.pop(claim.uid, None)

    def _lost_claim(self, claims: Iterable[ClaimReservation]) -> str:
        """Return which claim has neither its reservation any more nor an allocation."""
        for claim in claims:
            name = f"claim {claim.full_name}"
            record = self._state.ledger.claims.get(claim.uid)
            if record is None:
                return f"{name} was deleted"
            if record.allocation is None and not self.keeps(claim):
                return f"the devices of {name} are not reserved any more; the pod is tried again"
        return ""

    def _lost_device(self, claims: Iterable[ClaimReservation]) -> str:
        """Return which reserved device is no longer published, or has a new taint."""
        planner = self._state.planner
        for claim in claims:
            if not self.keeps(claim):
                continue  # it is allocated
            for result in self._claims[claim.uid].reservation.allocation.devices.results:
                name = f"device {result.driver}/{result.pool}/{result.device}"
                published = planner.find_pool(PoolID(result.driver, result.pool))
                if published is None:
                    return f"the driver is updating the pool of {name}; the pod is tried again"
                device = published.devices.get(result.device)
                if device is None:
                    return f"{name} is no longer published; the pod is tried again"
                taint = first_untolerated(device.taints, result.tolerations)
                if taint is not None:
                    return (
                        f"{name} has the taint {taint.key}:{taint.effect}; the pod is tried again"
                    )
        return ""
