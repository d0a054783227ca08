"""The reservations of pods: which claims of a pod are promised, until when, and who shares them.

A claim is reserved once, also if several pods use it. Its reservation ends when the last of them
gives it back. The ledger has the devices; this module has the pods.

The scheduler holds a pod between Reserve and Bind, for example while a volume is provisioned. It
names the pods that it holds each second, and their reservations are renewed, within limits.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from allocator.decisions.shortlist import FittingNode, NodeSearch
from allocator.state.awaited_claims import find_awaited
from allocator.state.cluster_state import AllocatorState
from allocator.state.group_records import GroupTable
from allocator.state.record_states import RecordEvent
from allocator.state.records import (
    ClaimReservation,
    PodRequest,
    PodReservation,
    Record,
    ReservedDevices,
    consumer_of,
)
from drawbridge.dra.allocation import Allocation, Consumer
from drawbridge.dra.claim import Claim
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.taints import first_untolerated
from drawbridge.ledger.allocation_mark import format_mark, make_mark
from drawbridge.ledger.conflicts import find_exceeded
from drawbridge.ledger.ledger import Reservation, ReservationRefusal, uid_of
from drawbridge.solver.memo import OutOfTimeError

# How long a reservation lasts that is not renewed.
RESERVATION_SECONDS: Final = 30.0
# How long a pod that is woken can count on the devices that were found for it.
PROMISE_SECONDS: Final = 2.0
# How long a reservation with an answer lasts, unless the scheduler holds or binds the pod.
ANSWERED_SECONDS: Final = 5.0
# How long the devices of a pod are held between the end of the cycle for its group, where the
# scheduler gives all members back, and the time when it reserves them one by one.
HOLD_SECONDS: Final = 5.0


class HoldLimits(NamedTuple):
    """How long a reservation can be renewed, and for how many devices of one namespace.

    By default as long as kube-scheduler holds a pod: at most 15 minutes at Permit (`maxTimeout`),
    and then 600 s while its volumes are bound (`bindTimeoutSeconds` of VolumeBinding).
    """

    seconds: float = 1500.0
    devices: int = 64


DEFAULT_LIMITS: Final = HoldLimits()


class ReservedPods:
    """The pods with a reservation, and the claims that are reserved for them."""

    def __init__(self, state: AllocatorState, groups: GroupTable, limits: HoldLimits) -> None:
        self._state = state
        self.groups = groups
        self._records = state.records
        self._limits = limits

    # --- questions ---

    def find(self, pod_uid: str) -> PodReservation | None:
        """Return the reservation of a pod."""
        devices = self._records.get(pod_uid).devices
        return devices.reservation if devices else None

    def has_expired(self, pod_uid: str, node: str) -> bool:
        """Whether a reservation expired that was not given back, and none was made since."""
        record = self._records.get(pod_uid)
        return record.devices is None and record.expired_on == node != ""

    def is_promised(self, pod_uid: str) -> bool:
        """Whether devices are promised to a pod that the scheduler has not reserved."""
        devices = self._records.get(pod_uid).devices
        return devices is not None and devices.promised

    def is_writing(self, pod_uid: str) -> bool:
        """Whether the reservation of a pod is being written."""
        devices = self._records.get(pod_uid).devices
        return devices is not None and devices.writing

    def is_reserved(self, claim_uid: str) -> bool:
        """Whether devices are reserved for a claim."""
        return claim_uid in self._state.ledger.reservations

    def users(self) -> Mapping[str, Collection[str]]:
        """Return the pods with a reservation by claim, also of claims that are allocated."""
        pods_by_claim: dict[str, list[str]] = {}
        for devices in self._all():
            for claim in devices.reservation.claims:
                pods_by_claim.setdefault(claim.uid, []).append(devices.reservation.uid)
        return pods_by_claim

    def promised_claims(self, pod_uids: Iterable[str]) -> set[str]:
        """Return the claims that have nothing any more when these pods lose their promises.

        One that is allocated by now keeps what it has, for the pods for which it was.
        """
        losing = set(filter(self.is_promised, pod_uids))
        devices = filter(None, (self._records.get(uid).devices for uid in losing))
        claims = {claim.uid for each in devices for claim in each.reservation.claims}
        ledger, users = self._state.ledger, self._records.reserved_for
        # A mark holds devices as well, while a write that was sent can allocate them.
        reserved = (
            uid for uid in claims & ledger.reservations.keys() if not ledger.claims[uid].holds
        )
        return {uid for uid in reserved if losing.issuperset(users(uid))}

    def promised_below(self, priority: int) -> Iterator[PodReservation]:
        """Yield the reservations of pods that were woken, and that are not scheduled yet."""
        for devices in self._promised():
            if devices.priority < priority:
                yield devices.reservation

    def lowest_promised(self) -> float:
        """Return the lowest priority of these pods; infinity for none."""
        return min((each.priority for each in self._promised()), default=math.inf)

    def _promised(self) -> Iterator[ReservedDevices]:
        for record in self._records.having("devices"):
            devices = record.devices
            if devices is not None and devices.promised and not self._is_protected(record):
                yield devices

    def _is_protected(self, record: Record) -> bool:
        """Whether no pod can take what is promised to a pod, whatever its priority."""
        hold = self.groups.get(record.group).hold if record.group else None
        return hold is not None and hold.first and record.uid in hold.members

    def keeps(self, claim: ClaimReservation) -> bool:
        """Whether these devices are still reserved for the claim, and not yet written."""
        reserved = self._reserved_for(claim.uid)
        return reserved is not None and reserved.allocation == claim.allocation

    def count_renewed_devices(self, now: float) -> int:
        """Return how many devices are reserved longer than without a renewal."""
        counted = set[str]()
        return sum(each.count(counted) for each in self._all() if _is_renewed(each, now))

    def _all(self) -> Iterator[ReservedDevices]:
        return (each.devices for each in self._records.having("devices") if each.devices)

    def _reserved_for(self, claim_uid: str) -> Reservation | None:
        # Pods can still count on a reservation that has ended because its claim was allocated.
        active = self._state.ledger.reservations.get(claim_uid)
        return active.reservation if active else None

    # --- reserving ---

    def reserve(  # noqa: PLR0913  # two by name
        self,
        request: PodRequest,
        fitting: FittingNode,
        search: NodeSearch,
        now: float,
        *,
        promised: bool = True,
        seconds: float | None = None,
    ) -> ReservationRefusal | None:
        """Reserve what a search has found for a pod on a node."""
        solved = dict(zip(map(uid_of, search.unallocated), fitting.allocations, strict=True))
        if seconds is None:
            seconds = PROMISE_SECONDS if promised else RESERVATION_SECONDS
        state, pod = self._state, request.pod
        lacking = [uid for uid in request.claims if state.claims[uid].status.allocation is None]
        if not solved.keys() >= {uid for uid in lacking if not self.is_reserved(uid)}:
            return ReservationRefusal.STALE  # a claim has lost its devices since the search
        try:
            wanted = {
                uid: self._reserved_for(uid) or self._make_reservation(solved[uid])
                for uid in lacking
            }
        except OutOfTimeError:
            return ReservationRefusal.UNKNOWN
        ledger = state.ledger
        new = wanted.keys() - ledger.reservations.keys()
        if refusal := ledger.assume(wanted):
            return refusal
        if find_exceeded(ledger, state.find_pool, new):
            ledger.rollback(new)
            return ReservationRefusal.HELD  # what was found is not free any more
        claims = tuple(
            _claim_reservation(state.claims[uid], consumer_of(pod, uid), wanted.get(uid))
            for uid in request.claims
        )
        devices = ReservedDevices(
            PodReservation(pod.namespace, pod.name, pod.uid, fitting.name, claims),
            wanted,
            since=now,
            until=now + seconds,
            priority=pod.priority,
            promised=promised,
        )
        event = RecordEvent.PROMISED if promised else RecordEvent.RESERVED
        self._records.change(pod.uid, event, devices=devices, taken_by="")
        for uid, reservation in wanted.items():
            self._forget_earlier(uid, reservation)
        return None

    def _forget_earlier(self, claim_uid: str, reservation: Reservation) -> None:
        """Let no pod count on a reservation of a claim that has ended, and gave other devices."""
        for pod_uid in self._records.reserved_for(claim_uid):
            devices = self._records.get(pod_uid).devices
            if devices and devices.reserved[claim_uid].allocation != reservation.allocation:
                left = {uid: each for uid, each in devices.reserved.items() if uid != claim_uid}
                self._change(devices, RecordEvent.SHARED, reserved=left)

    def confirm(self, pod_uid: str, now: float) -> None:
        """Make a promise a reservation; a reservation is renewed."""
        devices = self._records.get(pod_uid).devices
        if devices is not None and devices.promised:
            devices = msgspec.structs.replace(devices, promised=False, since=now, until=now)
        if devices is not None:
            self._extend(devices, RecordEvent.RESERVED, now)

    def prolong(self, pod_uid: str, until: float) -> None:
        """Let a promise last until a time."""
        devices = self._records.get(pod_uid).devices
        if devices is not None and devices.promised:
            self._change(devices, RecordEvent.RENEWED, until=until)

    def hold(self, pod_uid: str, now: float) -> bool:
        """Make a reservation a promise for a short time; False if there is none to hold."""
        devices = self._records.get(pod_uid).devices
        if devices is None or devices.writing:
            return False
        until = max(now + HOLD_SECONDS, devices.until if devices.promised else now)
        self._change(devices, RecordEvent.HELD_BACK, promised=True, until=until)
        return True

    def renew(self, pod_uids: Iterable[str], now: float) -> None:
        """Extend the reservations of the pods that the scheduler holds.

        In a namespace, those that are renewed for a long time come first. So a pod never loses its
        devices to the limit because of a later one.
        """
        of_pods = (self._records.get(uid).devices for uid in dict.fromkeys(pod_uids))
        counted, claims = Counter[str](), set[str]()
        for devices in sorted(filter(None, of_pods), key=lambda each: each.since):
            if devices.promised:
                continue  # the scheduler has not reserved the pod since it gave it up
            if _is_renewed(devices, now):
                namespace = devices.reservation.namespace
                counted[namespace] += devices.count(claims)
                if counted[namespace] > self._limits.devices:
                    continue
            self._extend(devices, RecordEvent.RENEWED, now)

    def _extend(self, devices: ReservedDevices, event: RecordEvent, now: float) -> None:
        until = min(now + RESERVATION_SECONDS, devices.since + self._limits.seconds)
        self._change(devices, event, until=max(devices.until, until))

    def _change(
        self,
        devices: ReservedDevices,
        event: RecordEvent,
        **changes: Any,  # noqa: ANN401  # its fields
    ) -> None:
        changed = msgspec.structs.replace(devices, **changes)
        self._records.change(devices.reservation.uid, event, devices=changed)

    def _make_reservation(self, allocation: Allocation) -> Reservation:
        return Reservation(allocation, make_mark(allocation, self._state.planner.counter_uses))

    # --- giving back ---

    def release(self, pod_uid: str) -> None:
        """Remove the reservation of a pod, unless it is being written."""
        self._release(pod_uid, RecordEvent.GIVEN_BACK)

    def _release(self, pod_uid: str, event: RecordEvent, **changes: Any) -> None:  # noqa: ANN401  # as well
        record = self._records.get(pod_uid)
        if record.devices is None or not record.devices.writing:
            changes["devices"] = None
        self._records.change(pod_uid, event, expired_on="", **changes)

    def end_promise(self, pod_uid: str, taker: str) -> None:
        """Remove a promise, because a pod of the namespace `taker` has a higher priority."""
        self._release(pod_uid, RecordEvent.TAKEN_OVER, taken_by=taker)

    def release_promised(self, pod_uids: Iterable[str]) -> None:
        """Remove what is promised to pods, and not what the scheduler has reserved for them."""
        for uid in pod_uids:
            if self.is_promised(uid):
                self.release(uid)

    def expire(self, now: float) -> tuple[str, ...]:
        """Remove the reservations whose time is over; return the UIDs of their pods."""
        expired = self._records.times.take("devices", now)
        for uid in expired:
            devices = self._records.get(uid).devices
            changes: dict[str, Any] = {"devices": None}
            if devices is not None and not devices.promised:
                changes["expired_on"] = devices.reservation.node
            self._records.change(uid, RecordEvent.EXPIRED, **changes)
        return tuple(expired)

    # --- writing ---

    def begin_write(self, pod_uid: str) -> str:
        """Keep a reservation from expiring; return why it cannot be written, or ""."""
        devices = self._records.get(pod_uid).devices
        if devices is None:
            return "the reservation expired; the pod is tried again"
        claims = devices.reservation.claims
        lost = filter(None, map(self.find_lost_device, claims))
        problem = self._find_awaited(devices) or self._lost_claim(claims) or next(lost, "")
        if not problem:
            self._change(devices, RecordEvent.WRITING, promised=False, writing=True)
        elif not devices.writing:
            self._records.change(pod_uid, RecordEvent.LOST, devices=None)
        return problem

    def _find_awaited(self, devices: ReservedDevices) -> str:
        """Return which claim another pod waits for, so that no write of it begins now, or ""."""
        uids = (each.uid for each in devices.reservation.claims)
        waits = None
        if not devices.writing:
            waits = find_awaited(uids, devices.priority, self._state)
        return f"{waits.message}; the pod is tried again" if waits else ""

    def _find_excess(self, claim_uid: str) -> str:
        """Return why a claim cannot have what is reserved for it beside all others."""
        state, claims = self._state, (claim_uid,)
        if state.ledger.has_conflict(claims):
            return f"cannot write the allocation: {ReservationRefusal.HELD}"
        finding = find_exceeded(state.ledger, state.find_pool, claims)
        return f"cannot write the allocation: {finding.message}" if finding else ""

    def end_write(self, pod_uid: str, *, written: bool) -> None:
        """End a write; without `written`, remove what is reserved and not allocated.

        What a later attempt of the pod has reserved is not being written, and stays.
        """
        devices = self._records.get(pod_uid).devices
        if devices is None or not devices.writing:
            return
        event = RecordEvent.WRITTEN if written else RecordEvent.NOT_WRITTEN
        self._records.change(pod_uid, event, devices=None)

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

    def find_lost_device(self, claim: ClaimReservation) -> str:
        """Return which reserved device is lost: to an owner, a claim, its driver or a new taint."""
        if claim.allocation is None or not self.keeps(claim):
            return ""  # it is allocated
        results = claim.allocation.devices.results
        owned = filter(self._state.find_owned, {PoolID(each.driver, each.pool) for each in results})
        pools = {pool: self._state.planner.find_pool(pool) for pool in owned}
        for result in results:
            name = f"device {result.driver}/{result.pool}/{result.device}"
            published = pools.get(PoolID(result.driver, result.pool))
            if published is None:
                why = f"the driver is updating the pool of {name}, or another scheduler owns it"
                return f"{why}; the pod is tried again"
            device = published.devices.get(result.device)
            if device is None:
                return f"{name} is no longer published; the pod is tried again"
            taint = first_untolerated(device.taints, result.tolerations)
            if taint is not None:
                return f"{name} has the taint {taint.key}:{taint.effect}; the pod is tried again"
        return self._find_excess(claim.uid)


def _is_renewed(devices: ReservedDevices, now: float) -> bool:
    """Whether a reservation is older than one that is not renewed."""
    return not devices.promised and now - devices.since > RESERVATION_SECONDS


def _claim_reservation(
    claim: Claim, consumer: Consumer, reserved: Reservation | None
) -> ClaimReservation:
    metadata = claim.metadata
    about = (metadata.namespace, metadata.name, metadata.uid, consumer)
    if reserved is None:
        return ClaimReservation(*about, allocated=claim.status.allocation)
    return ClaimReservation(*about, reserved.allocation, format_mark(reserved.mark))
