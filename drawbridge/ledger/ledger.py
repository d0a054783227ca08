"""Tracks which claims hold which devices: allocations of the API server and reservations in memory.

A reservation starts with `assume`. It ends when the API server reports the allocation (`observe`)
or when it is removed (`rollback`). Claims apply in the order of their resource versions, in
whatever order they arrive. The ledger does not check slices: the solver does so before a
reservation, and the audit afterwards.
"""

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.allocation import Allocation, gives_same_devices
from drawbridge.dra.claim import Claim, ClaimSpec, Template
from drawbridge.dra.inventory import PoolID
from drawbridge.finding import Finding
from drawbridge.ledger.allocation_mark import UNMARKED, Mark, is_mark_of, read_mark
from drawbridge.ledger.holder_index import HolderIndex
from drawbridge.ledger.holdings import DeviceID, Hold, read_holds, read_marked_holds
from drawbridge.ledger.quota_use import Capacities, QuotaUse
from drawbridge.resource_version import parse_version
from drawbridge.solver.world import View

# A later event about a deleted claim arrives within seconds, if at all.
MAX_DELETED = 65536


class ReservationRefusal(enum.StrEnum):
    """Why a reservation is not made."""

    ALLOCATED = "the claim already has an allocation"
    RESERVED = "other devices are reserved for the claim"
    GONE = "the claim does not exist"
    STALE = "the use of devices changed after the decision"
    HELD = "another claim holds one of them"
    QUOTA = "it would exceed a quota"
    UNKNOWN = "what the driver declares for one of them takes long"


class Reservation(NamedTuple):
    """The allocation to write for a claim, and the mark to write with it."""

    allocation: Allocation
    mark: Mark = UNMARKED


class ActiveReservation(NamedTuple):
    """A reservation in effect."""

    reservation: Reservation
    holds: tuple[Hold, ...]


class ClaimRecord(NamedTuple):
    """The latest observed state of a claim; without an allocation it can hold what is marked."""

    name: str
    version: int
    allocation: Allocation | None
    holds: tuple[Hold, ...]
    unreadable: Finding | None
    spec: ClaimSpec = ClaimSpec()
    # Whether our allocator wrote the allocation.
    ours: bool = False
    # The latest version that the API server told of; a scheduler can have told of a later one.
    confirmed: int = -1
    # Whether the API server was asked since a scheduler told of it.
    doubted: bool = False

    @property
    def namespace(self) -> str:
        """The namespace of the claim."""
        return self.name.partition("/")[0]

    @property
    def is_confirmed(self) -> bool:
        """Whether the API server told of it so, and not only a scheduler."""
        return self.version == self.confirmed


class ReleasedClaim(NamedTuple):
    """A claim that was released, or deleted, and is charged while what it had is kept."""

    namespace: str
    spec: ClaimSpec
    allocation: Allocation
    capacities: Capacities  # what its whole devices had


def uid_of(claim: Claim) -> str:
    """Return the UID of a claim; its name if a claim from a file has no UID."""
    return claim.metadata.uid or name_of(claim)


def name_of(claim: Claim | Template) -> str:
    """Return `namespace/name` of a claim or a template."""
    return f"{claim.metadata.namespace or 'default'}/{claim.metadata.name}"


class Ledger:
    """The state of all claims.

    No reservation exceeds `quotas`, which count what claims have.
    """

    def __init__(self, *, quotas: QuotaUse | None = None) -> None:
        self.quotas = QuotaUse() if quotas is None else quotas
        self._records: dict[str, ClaimRecord] = {}
        self._reservations: dict[str, ActiveReservation] = {}
        self._kept: dict[str, tuple[Hold, ...]] = {}
        self._released: dict[str, ReleasedClaim] = {}  # those that are charged, by key
        # What claims get when it is free, by each of their pods; None if it is not known what.
        self._expected: dict[str, list[Allocation | None]] = {}
        # The versions at which claims were deleted; later events about them are ignored.
        self._deleted: BoundedCache[str, int] = BoundedCache(MAX_DELETED)
        self.observed_to = -1  # the version up to which the watch has told all
        self._holders = HolderIndex()

    # --- events of the API server ---

    def observe(self, claim: Claim, *, told: bool = False) -> bool:
        """Apply a claim from a watch, a list or a write response; False if it is outdated.

        An allocation by any client ends the reservation of the claim. A claim that a scheduler has
        `told` of can be of another history than the API server, so it ends nothing that is held,
        and what the API server tells of the claim later replaces it, whatever its version is.
        """
        uid, version = uid_of(claim), parse_version(claim.metadata.resource_version)
        record = self._records.get(uid)
        confirmed = record.confirmed if record else -1
        newest = max(record.version if record and told else confirmed, self.observed_to)
        is_answer = record is not None and record.doubted and not told
        if uid in self._deleted or (version <= newest and not is_answer):
            return False
        if told and (uid in self._reservations or (record is not None and record.holds)):
            return False
        allocation = claim.status.allocation
        # Without an allocation nothing is held, and the mark of a tenant may take long to read.
        mark = UNMARKED if allocation is None else read_mark(claim.metadata)
        trusted, unreadable = (mark, None) if isinstance(mark, Mark) else (UNMARKED, mark)
        held = read_holds(allocation, trusted)
        if record is not None:
            self._holders.remove(uid, record.holds)
        reserved = self._reservations.pop(uid, None) if allocation is not None else None
        if reserved is not None:
            self._holders.remove(uid, reserved.holds)
        name = name_of(claim)
        ours = is_mark_of(trusted, allocation)
        confirmed = confirmed if told else version
        self._records[uid] = ClaimRecord(
            name, version, allocation, held, unreadable, claim.spec, ours, confirmed
        )
        self._holders.add(uid, held)
        self._charge(uid)
        return True

    def confirm(self, claim: Claim) -> None:
        """Note that the API server has a claim as a scheduler told of it."""
        uid, version = uid_of(claim), parse_version(claim.metadata.resource_version)
        self._records[uid] = self._records[uid]._replace(confirmed=version)

    def doubt(self, record: ClaimRecord, uid: str) -> None:
        """Let the answer of the API server, asked since this record, replace a scheduler's."""
        if self._records.get(uid) is record and not record.is_confirmed:
            self._records[uid] = record._replace(doubted=True)

    def replace_spec(self, claim: Claim) -> bool:
        """Keep what a claim has that is reduced now, or no more; False if it is another version."""
        uid = uid_of(claim)
        record = self._records.get(uid)
        if record is None or record.version != parse_version(claim.metadata.resource_version):
            return False
        allocation = claim.status.allocation
        self._records[uid] = record._replace(spec=claim.spec, allocation=allocation)
        return True

    def observe_deletion(self, uid: str, version: str = "") -> bool:
        """Apply the deletion of a claim, which is final; False if it was applied before."""
        if uid in self._deleted:
            return False
        record = self._records.pop(uid, None)
        if record is not None:
            self._holders.remove(uid, record.holds)
            self.quotas.charge(uid, record.namespace, {})
        self._remove_reservation(uid)
        self._deleted.put(uid, max(parse_version(version), record.version if record else 0))
        return True

    def observe_bookmark(self, version: str) -> None:
        """Apply a watch bookmark: all events up to a version were observed.

        A claim unknown at that version was deleted before; later events about it are outdated, and
        of one that is older, versions in between are of another history.
        """
        self.observed_to = max(self.observed_to, parse_version(version))
        for uid, at in tuple(self._deleted.items()):
            if at <= self.observed_to:
                self._deleted.pop(uid)

    def accept_unversioned(self) -> None:
        """Accept claims without a version, which exist in a simulation only, from now on."""
        self.observed_to = -1
        self._deleted.clear()

    def hold_marked(self, claim: Claim) -> None:
        """Hold the devices in the mark of a claim without an allocation, at this version only.

        A write that was sent before can allocate them as long as the claim has this version.
        """
        uid, record = uid_of(claim), self._records.get(uid_of(claim))
        if (
            record is None
            or record.version != parse_version(claim.metadata.resource_version)
            or record.allocation is not None
            or not isinstance(mark := read_mark(claim.metadata), Mark)
        ):
            return
        held = read_marked_holds(mark)
        self._holders.remove(uid, record.holds)
        self._records[uid] = record._replace(holds=held)
        self._holders.add(uid, held)
        self._charge(uid)

    def without_claims(self) -> "Ledger":
        """Return a ledger with the same rules and what is kept for pods, without any claim."""
        empty = Ledger(quotas=self.quotas.without_claims())
        for key, held in self._kept.items():
            empty.keep(key, held, self._released.get(key))
        empty._expected = {uid: [*each] for uid, each in self._expected.items()}
        return empty

    # --- reservations ---

    def assume(
        self,
        reservations: Mapping[str, Reservation],
        *,
        within_quotas: bool = True,
    ) -> ReservationRefusal | None:
        """Reserve devices for claims by UID, all or none.

        Only whole devices are compared with what others hold; `conflicts.find_exceeded` compares
        shares and counters, which depend on what drivers publish. An equal reservation or
        allocation of a claim stays.
        """
        for uid, reservation in reservations.items():
            if refusal := self._check_reservation(uid, reservation):
                return refusal
        new = {
            uid: read_holds(reservation.allocation, reservation.mark)
            for uid, reservation in reservations.items()
            if not self._is_held(uid)
        }
        if self._conflicts(new):
            return ReservationRefusal.HELD
        if within_quotas and self._exceeds_quota(
            {uid: reservations[uid].allocation for uid in new}
        ):
            return ReservationRefusal.QUOTA
        for uid, held in new.items():
            self._reservations[uid] = ActiveReservation(reservations[uid], held)
            self._holders.add(uid, held)
            self._charge(uid)
        return None

    def keep(self, key: str, held: Iterable[Hold], released: ReleasedClaim | None = None) -> None:
        """Replace the devices that are held under a key that belongs to no claim.

        Nothing is checked: the devices are those of a claim that was just released, or free. What a
        `released` claim had stays charged to its namespace.
        """
        self._holders.remove(key, self._kept.pop(key, ()))
        if holds := tuple(held):
            self._kept[key] = holds
            self._holders.add(key, holds)
        before = self._released.pop(key, None)
        if released is not None:
            self._released[key] = released
            self._charge(key)
        elif before is not None:
            self.quotas.charge(key, before.namespace, {}, vanished=True)

    def expect(
        self, before: Mapping[str, Allocation | None], after: Mapping[str, Allocation | None]
    ) -> None:
        """Charge claims already for devices that are kept for their pod, or will be free.

        Two pods of one namespace could else preempt, or wait, for room that is there for one. If it
        is not known which devices these are, they are charged the least that they ask for.
        """
        for uid, allocation in before.items():
            expected = self._expected[uid]
            expected.remove(allocation)
            if not expected:
                del self._expected[uid]
        for uid, allocation in after.items():
            self._expected.setdefault(uid, []).append(allocation)
        for uid in {**before, **after}:
            self._charge(uid)

    def has_conflict(self, uids: Iterable[str]) -> bool:
        """Return whether another claim holds a device that is reserved for one of these claims."""
        reserved = ((uid, self._reservations.get(uid)) for uid in uids)
        return self._conflicts({uid: each.holds for uid, each in reserved if each is not None})

    def rollback(self, uids: Iterable[str]) -> None:
        """Remove reservations; observed allocations stay until the API server reports a change."""
        for uid in uids:
            self._remove_reservation(uid)

    # --- current use ---

    def view(self) -> View:
        """Return the current use of all pools; the same object until something changes."""
        return self._holders.view()

    def view_without(self, uids: Collection[str], held: Iterable[Hold] = ()) -> View:
        """Return the current use as if these claims, or keys of `keep`, held nothing.

        And as if what is `held` were held beside the others.
        """
        without = (hold for uid in set(uids) for hold in self.holds_of(uid))
        return self._holders.view_without(without, held)

    def holds_of(self, uid: str) -> tuple[Hold, ...]:
        """Return what is held by a claim, or under a key of `keep`."""
        record, active = self._records.get(uid), self._reservations.get(uid)
        of_claim = record.holds if record else ()
        return (*of_claim, *(active.holds if active else ()), *self._kept.get(uid, ()))

    def holders(self, device: DeviceID) -> Mapping[str, tuple[Hold, ...]]:
        """Return the claims that hold a device or shares of it, by UID."""
        holders = self._holders.by_pool.get(device.pool, {}).get(device.name, {})
        return {uid: tuple(holders[uid]) for uid in sorted(holders)}

    def holders_in(self, pool: PoolID) -> Mapping[str, Mapping[str, Sequence[Hold]]]:
        """Return what is held of a pool, by device and UID or key; valid until the next change."""
        return self._holders.by_pool.get(pool, {})

    def users_of_share(self, device: DeviceID, share: str) -> Collection[str]:
        """Return the UIDs of the claims that hold a share of a device."""
        return self._holders.users_of_share(device, share)

    def claims_in(self, pool: PoolID) -> Collection[str]:
        """Return the UIDs of the claims that hold devices of a pool."""
        return {uid for claims in self._holders.by_pool.get(pool, {}).values() for uid in claims}

    def devices(self) -> tuple[DeviceID, ...]:
        """Return all held devices, sorted."""
        held = (
            DeviceID(pool, name) for pool, names in self._holders.by_pool.items() for name in names
        )
        return tuple(sorted(held))

    @property
    def claims(self) -> Mapping[str, ClaimRecord]:
        """The observed claims, by UID."""
        return self._records

    @property
    def reservations(self) -> Mapping[str, ActiveReservation]:
        """The reservations, by UID."""
        return self._reservations

    @property
    def kept(self) -> Mapping[str, tuple[Hold, ...]]:
        """The devices that are kept, by key."""
        return self._kept

    def _remove_reservation(self, uid: str) -> None:
        reservation = self._reservations.pop(uid, None)
        if reservation is not None:
            self._holders.remove(uid, reservation.holds)
            self._charge(uid)

    # --- quotas ---

    def charge_again(self, pool: PoolID) -> None:
        """Charge the claims with devices of a pool again, because what it publishes has changed."""
        for uid in self.claims_in(pool):
            self._charge(uid)

    def take_capacities(self, earlier: "Ledger") -> None:
        """Charge devices at most what another ledger knows that they had."""
        for uid in self._records:
            if capacities := earlier.quotas.capacities_of(uid):
                self.quotas.take_capacities(uid, capacities)
                self._charge(uid)

    def _charge(self, uid: str) -> None:
        """Charge a claim what it has: its allocation, or what is reserved for it.

        Under a key, charge what a released claim had.
        """
        if (released := self._released.get(uid)) is not None:
            self.quotas.charge_allocation(uid, *released[:3], vanished=released.capacities)
        record, active = self._records.get(uid), self._reservations.get(uid)
        if record is not None and self.quotas:
            reserved = active.reservation.allocation if active else None
            expected = self._expected.get(uid, ())
            awaited = next(filter(None, expected), None) if not record.holds else None
            allocation = record.allocation or reserved or awaited
            if allocation is None and (record.holds or expected):
                # A mark does not say which device is for which request.
                least = self.quotas.least_charge(record.spec)
                self.quotas.charge(uid, record.namespace, least)
            else:
                self.quotas.charge_allocation(uid, record.namespace, record.spec, allocation)

    def _exceeds_quota(self, allocations: Mapping[str, Allocation]) -> bool:
        """Return whether the claims of a pod have too much with these allocations."""
        if not self.quotas or not allocations:
            return False
        records = {uid: self._records[uid] for uid in allocations}
        charges = {
            uid: self.quotas.read_charge(records[uid].spec, allocation)
            for uid, allocation in allocations.items()
        }
        namespace = next(iter(records.values())).namespace
        return self.quotas.find_excess(namespace, charges) is not None

    def _allocation_of(self, uid: str) -> Allocation | None:
        record = self._records.get(uid)
        return record.allocation if record else None

    def _is_held(self, uid: str) -> bool:
        return uid in self._reservations or self._allocation_of(uid) is not None

    def _check_reservation(self, uid: str, reservation: Reservation) -> ReservationRefusal | None:
        if uid not in self._records:
            return ReservationRefusal.GONE
        allocation = self._allocation_of(uid)
        if allocation is not None:
            same = gives_same_devices(allocation, reservation.allocation)
            return None if same else ReservationRefusal.ALLOCATED
        active = self._reservations.get(uid)
        if active is not None and not gives_same_devices(
            active.reservation.allocation, reservation.allocation
        ):
            return ReservationRefusal.RESERVED
        return None

    def _conflicts(self, new: Mapping[str, Iterable[Hold]]) -> bool:
        """Return whether one of these claims shares a device that a claim holds as a whole."""
        taken: dict[DeviceID, list[bool]] = {}
        for held in new.values():
            for holding in held:
                taken.setdefault(holding.device_id, []).append(holding.shared)
        for device, shared in taken.items():
            for uid, held in self.holders(device).items():
                shared += [each.shared for each in held if uid not in new]
        return any(len(shared) > 1 and not all(shared) for shared in taken.values())
