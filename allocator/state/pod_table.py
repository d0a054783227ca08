"""The records of all pods, and what is asked of them by claim, place, key or time.

Every change of a record is made here, and everything else follows from the records before and
after: the indexes, the times, and what the ledger reserves and keeps. So a record that goes takes
everything along. Beyond a limit, the namespace with most records loses its oldest one that has no
devices, once the call of the scheduler is answered.
"""

import time
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import islice, takewhile
from typing import Any, Final, Literal, TypeAlias

from msgspec.structs import force_setattr, replace

from allocator.state.index import Index
from allocator.state.pauses import Pause
from allocator.state.record_states import RecordEvent, RecordState, is_expected, state_of
from allocator.state.records import Record, RecordStep, Waiting, WaitingPlace, key_of
from allocator.state.wheel import Wheel
from drawbridge.ledger.ledger import Ledger, Reservation

MAX_RECORDS: Final = 65536
MAX_STEPS: Final = 8  # of a record
Part: TypeAlias = Literal["devices", "kept", "paired", "victims", "unanswered"]
PARTS: Final[tuple[Part, ...]] = ("devices", "kept", "paired", "victims", "unanswered")
# What is due: the end of a reservation, of what is kept and of pauses. Pods without a record, too,
# are woken to release their claims, have ended, and get no late binding any more; nor do those of
# claims that had no allocation before this term.
Due: TypeAlias = Literal["devices", "kept", "device pause", "victim pause", "retry", "late", "end"]
# What a record can begin with, in a namespace.
BEGINS: Final = frozenset({RecordEvent.ASKED, RecordEvent.KEPT})
_NOTHING: Final[Mapping[str, Reservation]] = {}


class PodTable:
    """The records by the UID of the pod, and what the ledger holds for them."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float] = time.monotonic) -> None:
        self._ledger, self.clock = ledger, clock
        self._records: dict[str, Record] = {}
        self._namespaces: Index[str, str] = Index()
        # The pods that have a part, in the order in which they got it.
        self._having: dict[str, dict[str, None]] = {part: {} for part in PARTS}
        self._reserved: dict[str, dict[str, Reservation]] = {}
        self._lost: list[tuple[str, str]] = []
        self.places: Final[list[WaitingPlace]] = []  # of all pods that wait, in order
        self.alike: Index[bytes, str] = Index()  # the pods that wait, by their key
        self.times: Wheel[Due] = Wheel()
        self.limit = MAX_RECORDS
        self.unexpected = 0  # moves that cannot happen
        # How often each event has moved a record from one state to another.
        self.moves: Counter[tuple[RecordState, RecordEvent, RecordState]] = Counter()

    # --- questions ---

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the pods of this moment."""
        return iter(tuple(self._records))

    def get(self, uid: str) -> Record:
        """Return the record of a pod; an empty one if nothing is remembered."""
        return self._records.get(uid) or Record(uid)

    def last_steps(self, uid: str) -> list[tuple[float, RecordStep]]:
        """Return the last steps of a pod, each with the seconds since then."""
        now = self.clock()
        return [(now - step.at, step) for step in self.get(uid).steps]

    def having(self, part: Part) -> list[Record]:
        """Return the records with a part, in the order in which they got it."""
        return [self._records[uid] for uid in self._having[part]]

    def with_part(self, part: Part) -> Collection[str]:
        """Return the UIDs of the pods with a part, in the order in which they got it."""
        return self._having[part].keys()

    def find_waiting_above(
        self, priority: float, behind: WaitingPlace | None = None
    ) -> Iterator[WaitingPlace]:
        """Yield the places of pods with a higher priority that have and ask for no victims."""
        start = bisect_right(self.places, behind) if behind else 0
        rest = islice(self.places, start, None)
        for place in takewhile(lambda place: place.priority < -priority, rest):
            record = self.get(place.uid)
            has_victims = record.victims is not None or record.kept is not None
            is_refused = record.waiting is not None and not record.waiting.seen
            above = record.request is not None and record.request.pod.priority > priority
            if above and is_refused and not has_victims:
                yield place

    def move_alike(self, key: bytes, rank: int) -> bool:
        """Move all members of a group to one rank, which another member has changed.

        Return whether any has moved.
        """
        uids = self.alike.get(key)
        # All but the one that was answered have one rank.
        first = [self.get(uid).waiting for uid in islice(uids, 2)]
        if all(waiting is None or waiting.place.priority == rank for waiting in first):
            return False
        for waiting in [self.get(uid).waiting for uid in uids]:
            if waiting is not None and waiting.place.priority != rank:
                moved = replace(waiting, place=waiting.place._replace(priority=rank))
                self.change(moved.place.uid, RecordEvent.SEARCHED, waiting=moved)
        return True

    def move_to_end(self, part: Part, uid: str) -> None:
        """Move a pod behind the others with a part."""
        self._having[part][uid] = self._having[part].pop(uid)

    def reserved_for(self, claim_uid: str) -> Mapping[str, Reservation]:
        """Return what is reserved for a claim, by the UIDs of the pods that count on it."""
        return self._reserved.get(claim_uid, _NOTHING)

    def take_lost(self) -> list[tuple[str, str]]:
        """Return the members that have lost devices since the last call, with their groups."""
        lost, self._lost = self._lost, []
        return lost

    # --- changes ---

    def change(self, uid: str, event: RecordEvent, **changes: Any) -> None:  # noqa: ANN401  # fields
        """Change parts of a record, which begins or ends with that.

        Only a pod that is asked about, or gets what others release, has a record from then on.
        """
        before = self.get(uid)
        changed = any(getattr(before, name) is not value for name, value in changes.items())
        if not changed:
            return
        if uid not in self._records and not (event in BEGINS and changes.get("namespace")):
            self.unexpected += 1
            return
        self._put(before, event, replace(before, **changes), changes)

    def begin_term(self) -> None:
        """Forget what pods have, because another process decides now; keep what they ask."""
        nothing = {"devices": None, "kept": None, "expired_on": "", "taken_by": ""}
        for uid in self:
            self.change(uid, RecordEvent.TERM_BEGAN, **nothing)

    def trim(self, but: Collection[str]) -> None:
        """Drop what is beyond the limit; not the pods that a call of the scheduler is about."""
        if len(self._records) <= self.limit:
            return
        namespaces = [self._namespaces.get(each) for each in self._namespaces]
        sizes = [(-len(uids), number) for number, uids in enumerate(namespaces)]
        heapify(sizes)
        oldest: dict[int, Iterator[str]] = {}
        while len(self._records) > self.limit and sizes:
            size, number = heappop(sizes)
            if number not in oldest:
                oldest[number] = iter(tuple(namespaces[number]))
            uid = next((uid for uid in oldest[number] if self._can_drop(uid, but)), None)
            if uid is not None:
                self.end(uid, RecordEvent.DROPPED)
                heappush(sizes, (size + 1, number))

    def end(self, uid: str, event: RecordEvent = RecordEvent.ENDED) -> None:
        """Let a record go with everything; a write in progress has its devices until its end."""
        before = self.get(uid)
        devices = before.devices if before.devices and before.devices.writing else None
        after = Record(uid, before.namespace, devices=devices, steps=before.steps)
        self._put(before, event, after, PARTS)

    def _put(
        self, before: Record, event: RecordEvent, after: Record, changed: Iterable[str]
    ) -> None:
        state, later = state_of(before), state_of(after)
        if state is not later:
            self.moves[state, event, later] += 1
            self.unexpected += not is_expected(state, event, later)
        if state is not later or event is RecordEvent.WOKEN:
            steps = (*before.steps[1 - MAX_STEPS :], RecordStep(self.clock(), event, later))
            force_setattr(after, "steps", steps)  # nobody has this record yet
        self._store(before, after, ends=later is RecordState.UNKNOWN)
        for name in changed:
            if name in self._having:
                self._follow_part(name, after.uid, has=bool(getattr(after, name)))
        if before.devices is not after.devices:
            self._follow_devices(before, after)
        if before.kept is not after.kept:
            self._follow_kept(before, after)
        if before.waiting is not after.waiting or before.kept is not after.kept:
            self._follow_waiting(before, after)
        begins_or_ends = (before.waiting is None) != (after.waiting is None)
        if begins_or_ends or before.device_pause is not after.device_pause:
            self.times.set("device pause", after.uid, _end_of(after.device_pause, after.waiting))
        if begins_or_ends or before.victim_pause is not after.victim_pause:
            self.times.set("victim pause", after.uid, _end_of(after.victim_pause, after.waiting))

    def _store(self, before: Record, after: Record, *, ends: bool) -> None:
        uid, was = after.uid, after.uid in self._records
        if was is ends or before.namespace != after.namespace:
            left, entered = [before.namespace] if was else (), () if ends else [after.namespace]
            self._namespaces.move(uid, left, entered)
        if ends:
            self._records.pop(uid, None)
        else:
            self._records[uid] = after

    def _follow_part(self, part: str, uid: str, *, has: bool) -> None:
        if not has:
            self._having[part].pop(uid, None)
        else:
            self._having[part].setdefault(uid)

    def _can_drop(self, uid: str, but: Collection[str]) -> bool:
        """Whether a pod has no devices, and none are kept for it."""
        record = self._records[uid]
        return record.devices is None and record.kept is None and uid not in but

    # --- what follows from a change ---

    def _follow_devices(self, before: Record, after: Record) -> None:
        uid, had, has = after.uid, before.devices, after.devices
        for claim, reservation in has.reserved.items() if has else ():
            self._reserved.setdefault(claim, {})[uid] = reservation
        for claim in had.reserved if had else ():
            if has is None or claim not in has.reserved:
                users = self._reserved[claim]
                del users[uid]
                if not users:
                    del self._reserved[claim]
                    # A write that had the reservation has ended.
                    self._ledger.rollback((claim,))
        if has is None and before.group:
            self._lost.append((before.group, uid))
        self.times.set("devices", uid, None if has is None or has.writing else has.until)

    def _follow_kept(self, before: Record, after: Record) -> None:
        had, has = before.kept, after.kept
        if had is None or has is None or had.held is not has.held:
            self._ledger.keep(key_of(after.uid), has.held if has else ())
        if had is None or has is None or had.claims != has.claims:
            self._ledger.expect(had.claims if had else (), expected=False)
            self._ledger.expect(has.claims if has else (), expected=True)
        self.times.set("kept", after.uid, has.until if has else None)

    def _follow_waiting(self, before: Record, after: Record) -> None:
        had, has = before.waiting, after.waiting
        if had is not None and (has is None or had.place != has.place):
            del self.places[bisect_left(self.places, had.place)]
        if has is not None and (had is None or had.place != has.place):
            insort(self.places, has.place)
        keys = [[each.key] if each.waiting else [] for each in (before, after)]
        if keys[0] != keys[1]:
            self.alike.move(after.uid, *keys)


def _end_of(pause: Pause, waiting: Waiting | None) -> float | None:
    """Return when a pod that waits can be woken; None if its pause was over before it waited."""
    return pause.until if waiting is not None and pause.until > waiting.place.since else None
