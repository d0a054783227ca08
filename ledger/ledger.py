"""Who holds which device: what claims say that is allocated, and what is promised in memory.

A promise is made (`assume`), kept through the write (`commit`), and ends when the API server's
word arrives (`observe`), or when it is taken back (`forget`, `rollback`) or runs out (`expire`).
What the API server says is believed in the order of its versions, in whatever order it arrives.
Knows no clock, no API server and no slices: what a device may bear is asked by the solver before,
and by the audit afterwards.
"""

import enum
import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from dra.allocation import Allocation
from dra.capacity import Amounts
from dra.claim import Claim
from dra.finding import Finding
from dra.inventory import PoolID
from dra.quantity import Quantity
from ledger.allocation_mark import UNMARKED, Mark, read_mark
from ledger.holdings import Hold, merge_marked_draws, read_holds
from ledger.layered_map import LayeredMap
from solver.world import UNUSED, PoolUse, View, add_amounts


class Refusal(enum.StrEnum):
    """Why a promise is not made, or not kept."""

    ALLOCATED = "the claim has an allocation"
    PROMISED = "the claim is promised other devices"
    GONE = "the claim is not there"
    STALE = "devices were given or taken since it was decided"
    HELD = "a device is held by another claim"
    LOST = "the promise has run out or was taken back"


class Reservation(NamedTuple):
    """What a claim is to be allocated, and the mark that will be written with it."""

    allocation: Allocation
    mark: Mark = UNMARKED


class ActiveReservation(NamedTuple):
    """A promise that counts; `until` is None once it is being written."""

    promise: Reservation
    holds: tuple[Hold, ...]
    until: float | None


class ClaimRecord(NamedTuple):
    """The newest that the API server said of a claim."""

    name: str
    version: int
    allocation: Allocation | None
    holds: tuple[Hold, ...]
    unreadable: Finding | None


class DeviceID(NamedTuple):
    """What identifies a device; sorts as pools do."""

    pool: PoolID
    name: str


def uid_of(claim: Claim) -> str:
    """Give what identifies a claim: its UID, or where a file has none, its name."""
    return claim.metadata.uid or name_of(claim)


def name_of(claim: Claim) -> str:
    """Give a claim as people write it."""
    return f"{claim.metadata.namespace or 'default'}/{claim.metadata.name}"


class Ledger:
    """The state of all claims; `sharing` is the gate DRAConsumableCapacity."""

    def __init__(self, *, sharing: bool = True) -> None:
        self._sharing = sharing
        self._known: dict[str, ClaimRecord] = {}
        self._promised: dict[str, ActiveReservation] = {}
        # The versions at which claims were deleted: no later word about them is believed.
        self._deleted: dict[str, int] = {}
        self._seen_to = -1
        self._holders: dict[PoolID, dict[str, dict[str, list[Hold]]]] = {}
        self._touched: dict[PoolID, set[str]] = {}
        self._view = View(LayeredMap(UNUSED))

    # --- what the API server says ---

    def observe(self, claim: Claim) -> bool:
        """Take a claim as a watch, a list or the answer to a write has it; False for old news.

        The allocation of a promised claim ends its promise, whoever wrote it.
        """
        uid, version = uid_of(claim), _version(claim.metadata.resource_version)
        known = self._known.get(uid)
        newest = known.version if known else self._seen_to
        if uid in self._deleted or version <= newest:
            return False
        mark = read_mark(claim.metadata)
        believed, unreadable = (mark, None) if isinstance(mark, Mark) else (UNMARKED, mark)
        allocation = claim.status.allocation
        held = read_holds(allocation, believed, sharing=self._sharing)
        if known is not None:
            self._release(uid, known.holds)
        if allocation is not None:
            self._drop(uid)
        self._known[uid] = ClaimRecord(name_of(claim), version, allocation, held, unreadable)
        self._hold(uid, held)
        return True

    def vanish(self, uid: str, version: str = "") -> bool:
        """Take the deletion of a claim, which is final; False where it was known."""
        if uid in self._deleted:
            return False
        known = self._known.pop(uid, None)
        if known is not None:
            self._release(uid, known.holds)
        self._drop(uid)
        self._deleted[uid] = max(_version(version), known.version if known else 0)
        return True

    def relist(self, claims: Iterable[Claim], version: str) -> None:
        """Take a list of all claims at a version; what is older and not in it was deleted."""
        listed = {uid_of(claim): claim for claim in claims}
        until = _version(version)
        gone = [uid for uid, known in self._known.items() if known.version <= until]
        for uid in gone:
            if uid not in listed:
                self.vanish(uid, version)
        for claim in listed.values():
            self.observe(claim)
        self.settle(version)

    def settle(self, version: str) -> None:
        """Learn that everything up to a version has been seen, as a bookmark of the watch says.

        A claim that is not known by then was deleted before: late news of it are old news.
        """
        self._seen_to = max(self._seen_to, _version(version))
        self._deleted = {u: at for u, at in self._deleted.items() if at > self._seen_to}

    # --- what is promised ---

    def assume(
        self,
        promises: Mapping[str, Reservation],
        *,
        until: float,
        view: View,
        pools: Collection[PoolID] = (),
    ) -> Refusal | None:
        """Promise devices to claims by their UIDs, all or none, until the clock says `until`.

        `view` is what the decision was made on: it is refused where the use of a pool it concerns,
        or of the `pools` it depends on besides, has changed. The same promise again, kept or
        fulfilled by now, changes nothing but its time.
        """
        for uid, promise in promises.items():
            if refusal := self._refused(uid, promise):
                return refusal
        new = {uid: self._held(each) for uid, each in promises.items() if not self._has(uid)}
        concerned = {each.pool for held in new.values() for each in held}
        now = self.view()
        if new and any(view.use(pool) is not now.use(pool) for pool in concerned.union(pools)):
            return Refusal.STALE
        if self._clash(new):
            return Refusal.HELD
        for uid, held in new.items():
            self._promised[uid] = ActiveReservation(promises[uid], held, until)
            self._hold(uid, held)
        for uid in promises.keys() - new.keys():
            renewed = self._promised.get(uid)
            if renewed is not None and renewed.until is not None:
                self._promised[uid] = renewed._replace(until=max(until, renewed.until))
        return None

    def commit(self, uids: Iterable[str]) -> Refusal | None:
        """Keep promises from running out, all or none, because they are about to be written.

        From here on the API server may know of them: only its word or a rollback ends them. Refused
        where one was lost, or where somebody else has been allocated its devices meanwhile.
        """
        wanted = list(uids)
        kept = {uid: self._promised[uid] for uid in wanted if uid in self._promised}
        for uid in wanted:
            if uid not in kept and not self._allocated(uid):
                return Refusal.LOST if uid in self._known else Refusal.GONE
        if self._clash({uid: each.holds for uid, each in kept.items()}):
            return Refusal.HELD
        for uid, each in kept.items():
            self._promised[uid] = each._replace(until=None)
        return None

    def forget(self, uids: Iterable[str]) -> None:
        """Take back promises that nobody has begun to write; others stay."""
        for uid in uids:
            if uid in self._promised and self._promised[uid].until is not None:
                self._drop(uid)

    def rollback(self, uids: Iterable[str]) -> None:
        """Take back promises, written or not: the API server is known to have refused them.

        What it has accepted stays allocated until it says otherwise.
        """
        for uid in uids:
            self._drop(uid)

    def expire(self, now: float) -> tuple[str, ...]:
        """Take back the promises whose time is over, and name their claims."""
        over = [u for u, p in self._promised.items() if p.until is not None and p.until <= now]
        for uid in over:
            self._drop(uid)
        return tuple(over)

    # --- what holds ---

    def view(self) -> View:
        """Give what is held by now, for the solver; the same view until something changes.

        Costs as much as was changed in pools since the last one.
        """
        changes = {}
        for pool, devices in self._touched.items():
            before = self._view.use(pool)
            after = self._use(pool, before, devices)
            if after is not before:
                changes[pool] = after
        self._touched = {}
        if changes:
            layers = self._view.pools
            assert isinstance(layers, LayeredMap)  # noqa: S101  # made here
            self._view = View(layers.changed(changes))
        return self._view

    def holders(self, device: DeviceID) -> Mapping[str, tuple[Hold, ...]]:
        """Give the claims that hold a device, or shares of it, by UID."""
        found = self._holders.get(device.pool, {}).get(device.name, {})
        return {uid: tuple(found[uid]) for uid in sorted(found)}

    def devices(self) -> tuple[DeviceID, ...]:
        """Give every device that is held, sorted."""
        held = (DeviceID(pool, name) for pool, names in self._holders.items() for name in names)
        return tuple(sorted(held))

    @property
    def claims(self) -> Mapping[str, ClaimRecord]:
        """What is known of claims, by UID."""
        return self._known

    @property
    def promises(self) -> Mapping[str, ActiveReservation]:
        """What is promised, by UID."""
        return self._promised

    # --- the index of holders ---

    def _hold(self, uid: str, held: Iterable[Hold]) -> None:
        for each in held:
            devices = self._holders.setdefault(each.pool, {})
            devices.setdefault(each.device, {}).setdefault(uid, []).append(each)
            self._touched.setdefault(each.pool, set()).add(each.device)

    def _release(self, uid: str, held: Iterable[Hold]) -> None:
        for each in held:
            devices = self._holders.get(each.pool, {})
            claims = devices.get(each.device, {})
            claims.pop(uid, None)
            if not claims:
                devices.pop(each.device, None)
            if not devices:
                self._holders.pop(each.pool, None)
            self._touched.setdefault(each.pool, set()).add(each.device)

    def _drop(self, uid: str) -> None:
        promised = self._promised.pop(uid, None)
        if promised is not None:
            self._release(uid, promised.holds)

    def _held(self, promise: Reservation) -> tuple[Hold, ...]:
        return read_holds(promise.allocation, promise.mark, sharing=self._sharing)

    def _allocated(self, uid: str) -> Allocation | None:
        known = self._known.get(uid)
        return known.allocation if known else None

    def _has(self, uid: str) -> bool:
        return uid in self._promised or self._allocated(uid) is not None

    def _refused(self, uid: str, promise: Reservation) -> Refusal | None:
        if uid not in self._known:
            return Refusal.GONE
        allocation = self._allocated(uid)
        if allocation is not None:
            return None if _same(allocation, promise.allocation) else Refusal.ALLOCATED
        known = self._promised.get(uid)
        if known is not None and not _same(known.promise.allocation, promise.allocation):
            return Refusal.PROMISED
        return None

    def _clash(self, new: Mapping[str, Iterable[Hold]]) -> bool:
        """Tell whether one of these claims shares a device that somebody has as a whole."""
        taken: dict[DeviceID, list[bool]] = {}
        for held in new.values():
            for each in held:
                taken.setdefault(DeviceID(each.pool, each.device), []).append(each.shared)
        for device, shared in taken.items():
            for uid, held in self.holders(device).items():
                shared += [each.shared for each in held if uid not in new]
        return any(len(shared) > 1 and not all(shared) for shared in taken.values())

    def _use(self, pool: PoolID, before: PoolUse, devices: Collection[str]) -> PoolUse:
        """Give the use of a pool in which some devices changed hands."""
        held = self._holders.get(pool, {})
        if not held:
            return UNUSED
        dedicated = set(before.dedicated).difference(devices)
        shares = {name: each for name, each in before.shares.items() if name not in devices}
        snapshots = {name: each for name, each in before.snapshots.items() if name not in devices}
        for name in sorted(devices & held.keys()):
            several = [hold for uid in sorted(held[name]) for hold in held[name][uid]]
            if not all(hold.shared for hold in several):
                dedicated.add(name)
            if any(hold.shared for hold in several):
                shares[name] = _sum(hold.consumed for hold in several)
            if drew := merge_marked_draws(several):
                snapshots[name] = drew
        after = PoolUse(frozenset(dedicated), shares, snapshots)
        same = all(
            getattr(before, name) == getattr(after, name) for name in PoolUse.__struct_fields__
        )
        return before if same else after


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    held: dict[str, Quantity] = {}
    for each in amounts:
        add_amounts(held, each)
    return held


def _same(one: Allocation, other: Allocation) -> bool:
    """Tell whether two allocations give the same devices to the same requests."""
    first, second = (
        [
            (r.request, r.driver, r.pool, r.device, r.share_id, r.admin_access)
            for r in each.devices.results
        ]
        for each in (one, other)
    )
    return first == second


_NUMBER = re.compile(r"[0-9]{1,40}")


def _version(text: str) -> int:
    """Read a resourceVersion, which grows with time; an object from a file may have none."""
    return int(text) if _NUMBER.fullmatch(text) else 0
