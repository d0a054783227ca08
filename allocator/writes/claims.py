"""Writes what is reserved for one claim: the mark, then the allocation and its consumers.

Each write applies to one version of the claim. If the claim has another version, it is read again,
and the reservation is either continued or refused.
"""

import datetime as dt
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from allocator.state.caches import AllocatorCaches
from allocator.state.live_state import LiveState
from allocator.state.records import ClaimReservation
from allocator.state.reports import about_claim
from allocator.writes.cluster_writes import FINALIZER, ClusterWrites
from drawbridge.agreement import allocator_codes as codes
from drawbridge.api_error import ApiError
from drawbridge.dra.allocation import MAX_CONSUMERS, Allocation, gives_same_devices
from drawbridge.dra.claim import Claim
from drawbridge.ledger.allocation_mark import list_dropped
from drawbridge.names import ALLOCATION_ANNOTATION

ATTEMPTS: Final = 5


class BindRefusedError(Exception):
    """A pod cannot be bound as it was decided; the message is for the pod's condition."""


class ClaimWriter:
    """Carries out the reservations of claims.

    `check` runs before every write of a mark or an allocation and may raise, also before one is
    sent again. Between marks and allocations the Lease is read: who leads afterwards has read the
    marks. `dropped` has the fields of allocations that responses to their writes lacked: unlike
    what a claim says later, nobody but the API server and its policies decides about them.
    """

    def __init__(
        self,
        writes: ClusterWrites,
        cache: AllocatorCaches,
        state: LiveState,
        *,
        check: Callable[[], None],
    ) -> None:
        self._writes = writes
        self._cache = cache
        self._state = state
        self.check = check
        self.dropped: frozenset[str] = frozenset()
        self._is_confirmed = False  # whether the Lease was read since the last mark

    async def mark(self, reserved: ClaimReservation, live: Claim | None = None) -> Claim:
        """Write the mark and the finalizer, unless the claim has an allocation or this mark.

        `live` is the claim as it was just read.
        """
        self._is_confirmed = False
        live = live or self._cache.get(reserved.namespace, reserved.name)
        for _ in range(ATTEMPTS):
            # A watch that is behind shows the claim that had its name before, and a reduced claim
            # does not show the whole mark.
            if live is None or live.metadata.uid != reserved.uid or live.reduced:
                live = await self.read(reserved)
            live = await self._follow_others(live, reserved)
            if live.status.allocation is not None or not _find_missing(live, reserved):
                return live
            self._check_reserved(reserved)
            try:
                check = partial(self._check_devices, reserved)
                marked = self._observed(await self._writes.mark(live, reserved.mark, check))
            except ApiError as error:
                _raise_unless_changed(error)
                live = None
            else:
                self._check_stored(marked, reserved)
                return marked
        raise _changes_too_often(reserved)

    async def allocate(self, marked: Claim, reserved: ClaimReservation) -> Claim:
        """Write the allocation and the consumer into a marked claim.

        Of a claim that has the allocation, only the consumers change. One that has the consumer as
        well gets another version, so that a release that was sent earlier has an outdated one.
        """
        live = marked
        for _ in range(ATTEMPTS):
            self.check()
            try:
                return await self._allocate(await self._follow_others(live, reserved), reserved)
            except ApiError as error:
                _raise_unless_changed(error)
                # A request without a response may have been the one that changed the claim.
                live = await self.read(reserved)
                _check_claim(live, reserved)
                if live.status.allocation is None:
                    live = await self.mark(reserved, live)
        raise _changes_too_often(reserved)

    async def unmark(self, reserved: ClaimReservation) -> None:
        """Remove the mark and the finalizer, if the claim was not allocated."""
        live = await self._writes.read_claim(reserved.namespace, reserved.name)
        if live is None or live.metadata.uid != reserved.uid:
            return
        self._observed(live)
        metadata = live.metadata
        current = metadata.annotations.get(ALLOCATION_ANNOTATION)
        # A policy can have removed the mark alone.
        is_marked = (
            FINALIZER in metadata.finalizers if current is None else current == reserved.mark
        )
        if live.status.allocation is None and is_marked:
            self._observed(await self._writes.unmark(live))

    async def read(self, reserved: ClaimReservation) -> Claim:
        """Read a claim from the API server."""
        live = await self._writes.read_claim(reserved.namespace, reserved.name)
        if live is None:
            raise BindRefusedError(f"claim {reserved.full_name} was deleted")
        return self._observed(live)

    async def _follow_others(self, live: Claim, reserved: ClaimReservation) -> Claim:
        """Return a claim that can still have what is reserved, as it was read.

        A pod that shares the claim may have allocated it since, so that it is read again.
        """
        if live.status.allocation is None and not self._keeps(reserved):
            live = await self.read(reserved)
        _check_claim(live, reserved)
        return live

    async def _allocate(self, live: Claim, reserved: ClaimReservation) -> Claim:
        consumer, consumers = reserved.consumer, live.status.reserved_for
        if live.status.allocation is None:
            if not self._is_confirmed:
                await self._writes.confirm_leading()
                self._is_confirmed = True
            self._check_reserved(reserved)
            now = dt.datetime.fromtimestamp(self._state.server_time(), dt.UTC)
            allocation = msgspec.structs.replace(
                reserved.allocation or Allocation(),
                allocation_timestamp=f"{now:%Y-%m-%dT%H:%M:%SZ}",
            )
            check = partial(self._check_devices, reserved)
            written = await self._writes.allocate(live, allocation, (consumer,), check)
            self.dropped |= list_dropped(allocation, written.status.allocation or Allocation())
            return self._observed(written)
        if any(each.uid == consumer.uid for each in consumers):
            return await self._renew(live)
        if len(consumers) >= MAX_CONSUMERS:
            name = reserved.full_name
            raise BindRefusedError(f"claim {name} already has {MAX_CONSUMERS} consumers")
        return self._observed(await self._writes.set_consumers(live, (*consumers, consumer)))

    async def _renew(self, live: Claim) -> Claim:
        """Give a marked claim another version; only marked claims are ever released."""
        mark = live.metadata.annotations.get(ALLOCATION_ANNOTATION)
        if mark is None:
            return live
        other = mark.rstrip(" ") if mark.endswith(" ") else f"{mark} "
        return self._observed(await self._writes.mark(live, other, self.check))

    def _check_reserved(self, reserved: ClaimReservation) -> None:
        """Raise BindRefusedError if another claim can have the devices.

        Another pod with the same claim, or another client, can have ended the reservation.
        """
        self._check_devices(reserved)
        if not self._keeps(reserved):
            text = f"the devices of claim {reserved.full_name} are not reserved any more"
            raise BindRefusedError(text)

    def _check_stored(self, marked: Claim, reserved: ClaimReservation) -> None:
        """Raise BindRefusedError if a claim that was just marked could never be released."""
        if missing := _find_missing(marked, reserved):
            text = f"claim {reserved.full_name}: the API server has not stored {missing} as it was "
            text += "written, because a webhook or a policy changes it"
            self._state.report(about_claim(codes.MARK_NOT_STORED, marked, text, "metadata"))
            raise BindRefusedError(text)

    def _keeps(self, reserved: ClaimReservation) -> bool:
        return self._state.reservations.keeps(reserved)

    def _check_devices(self, reserved: ClaimReservation) -> None:
        """Raise BindRefusedError if the devices have gone to another owner.

        A reservation that has ended during a write ended with a version of the claim that the write
        does not apply to.
        """
        self.check()
        self._state.fences.follow_lease()
        if problem := self._state.reservations.find_lost_device(reserved):
            raise BindRefusedError(problem)

    def _observed(self, live: Claim) -> Claim:
        self._state.observe_claim(live)
        return live


def _check_claim(live: Claim, reserved: ClaimReservation) -> None:
    """Raise BindRefusedError unless the claim can still have what is reserved."""
    name = f"claim {reserved.full_name}"
    metadata = live.metadata
    if metadata.uid != reserved.uid:
        raise BindRefusedError(f"{name} was deleted, and another claim has its name")
    if metadata.deletion_timestamp is not None:
        raise BindRefusedError(f"{name} is being deleted")
    if live.status.allocation is None:
        if reserved.allocation is None:
            raise BindRefusedError(f"{name} was deallocated meanwhile")
        return
    # The pod was decided for the node of this allocation.
    expected = reserved.allocation or reserved.allocated
    if expected is None or not gives_same_devices(live.status.allocation, expected):
        raise BindRefusedError(f"{name} got another allocation meanwhile")


def _find_missing(live: Claim, reserved: ClaimReservation) -> str:
    """Return what a marked claim has and this one has not.

    The mark of an earlier allocation can be equal, but the finalizer ends with it.
    """
    if FINALIZER not in live.metadata.finalizers:
        return f"finalizer {FINALIZER}"
    current = live.metadata.annotations.get(ALLOCATION_ANNOTATION)
    return "" if current == reserved.mark else f"annotation {ALLOCATION_ANNOTATION}"


def _raise_unless_changed(error: ApiError) -> None:
    if not (error.changed or error.unknown):
        raise error


def _changes_too_often(reserved: ClaimReservation) -> BindRefusedError:
    text = f"changed at each of {ATTEMPTS} attempts to write it"
    return BindRefusedError(f"claim {reserved.full_name} {text}")
