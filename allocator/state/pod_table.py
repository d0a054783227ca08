"""The records of all pods, and what is asked of them by claim, place, key or time.

Every change of a record is made here, and what follows is carried out (`transitions.py`): in the
indexes, the times, and what the ledger reserves and keeps. So a record that goes takes everything
along. Beyond a limit, the namespace with most records loses its oldest one that has no
devices, once the call of the scheduler is answered.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from allocator.state.places_to_visit import PlacesToVisit
from allocator.state.record_states import RecordEvent, RecordState, is_expected
from allocator.state.records import Record, RecordStep, WaitingPlace, key_of
from allocator.state.transitions import (
    PARTS,
    Await,
    Due,
    Effect,
    Expect,
    GiveBack,
    HavePart,
    Keep,
    LookAgain,
    LoseDevices,
    MoveKey,
    MovePlace,
    Part,
    Reserve,
    move,
    place_of_question,
)
from allocator.state.wheel import Wheel
from drawbridge.index import Index
from drawbridge.ledger.ledger import Ledger

MAX_RECORDS: Final = 65536
# What a record can begin with, in a namespace.
BEGINS: Final = frozenset({RecordEvent.ASKED, RecordEvent.KEPT})


class PodTable:
    """The records by the UID of the pod, and what the ledger holds for them."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float] = time.monotonic) -> None:
        self._ledger, self.clock = ledger, clock
        self._records: dict[str, Record] = {}
        self._namespaces: Index[str, str] = Index()
        # The pods that have a part, in the order in which they got it.
        self._having: dict[str, dict[str, None]] = {part: {} for part in PARTS}
        self._reserved: dict[str, dict[str, None]] = {}  # the pods that count on a reservation
        self._lost: list[tuple[str, str]] = []
        # The pods that wait, by their key, and those of them that wait for room in a quota.
        self.alike: Index[bytes, str] = Index()
        self.exceeding: Index[bytes, str] = Index()
        # The pods for which each claim is to be released, and how often one began or ended to wait.
        self.awaited: Index[str, str] = Index()
        self.waits = 0
        # All pods that wait, by place. Those that ask are listed when their pause is over.
        self.to_try, self.asking, self.unasked = (PlacesToVisit() for _ in range(3))
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

    def reserved_for(self, claim_uid: str) -> Collection[str]:
        """Return the pods that count on what is reserved for a claim."""
        return tuple(self._reserved.get(claim_uid, ()))

    def end_victim_pause(self, now: float) -> bool:
        """Let the pod ask for victims whose pause has ended first; False if none has."""
        uid = self.times.take_first("victim pause", now)
        if uid is None:
            return False
        self._move_question(None, place_of_question(self.get(uid)))
        return True

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
        self._put(before, event, replace(before, **changes))

    def end_term(self) -> None:
        """Forget what pods have, because another process decides now; keep what they ask."""
        nothing = {"devices": None, "kept": None, "expired_on": "", "taken_by": "", "paired": None}
        for uid in self:
            self.change(uid, RecordEvent.TERM_ENDED, **nothing)

    @property
    def has_room(self) -> bool:
        """Whether a new record is kept, and no other one makes way for it."""
        return len(self._records) < self.limit

    def trim(self, but: Iterable[str]) -> None:
        """Drop what is beyond the limit; not the pods that a call of the scheduler is about."""
        if len(self._records) <= self.limit:
            return
        kept = frozenset(but)
        namespaces = [self._namespaces.get(each) for each in self._namespaces]
        sizes = [(-len(uids), number) for number, uids in enumerate(namespaces)]
        heapify(sizes)
        oldest: dict[int, Iterator[str]] = {}
        while len(self._records) > self.limit and sizes:
            size, number = heappop(sizes)
            if number not in oldest:
                oldest[number] = iter(tuple(namespaces[number]))
            uid = next((uid for uid in oldest[number] if self._can_drop(uid, kept)), None)
            if uid is not None:
                self.end(uid, RecordEvent.DROPPED)
                heappush(sizes, (size + 1, number))

    def end(self, uid: str, event: RecordEvent = RecordEvent.ENDED) -> None:
        """Let a record go with everything; a write in progress has its devices until its end."""
        before = self.get(uid)
        devices = before.devices if before.devices and before.devices.writing else None
        after = Record(uid, before.namespace, devices=devices, steps=before.steps)
        self._put(before, event, after)

    def _put(self, before: Record, event: RecordEvent, after: Record) -> None:
        record, state, later, effects = move(before, event, after, self.clock())
        if state is not later:
            self.moves[state, event, later] += 1
        self.unexpected += not is_expected(state, event, later)
        self._store(before, record, ends=later is RecordState.UNKNOWN)
        for effect in effects:
            self._carry_out(record.uid, effect)

    def _store(self, before: Record, after: Record, *, ends: bool) -> None:
        uid, was = after.uid, after.uid in self._records
        if was is ends or before.namespace != after.namespace:
            left, entered = [before.namespace] if was else (), () if ends else [after.namespace]
            self._namespaces.move(uid, left, entered)
        if ends:
            self._records.pop(uid, None)
            self.times.set("unseen", uid, None)
        else:
            self._records[uid] = after

    def _can_drop(self, uid: str, but: Collection[str]) -> bool:
        """Whether a pod has no devices, and none are kept for it."""
        record = self._records[uid]
        return record.devices is None and record.kept is None and uid not in but

    # --- what follows from a change ---

    def _carry_out(self, uid: str, effect: Effect) -> None:
        match effect:
            case LookAgain(kind, at):
                self.times.set(kind, uid, at)
            case HavePart(part, True):
                self._having[part][uid] = None
            case HavePart(part, False):
                del self._having[part][uid]
            case MovePlace("waiting", before, after):
                self.to_try.move(before, after)
            case MovePlace("asking", before, after):
                pauses = self.times.get("victim pause", uid) is not None
                self._move_question(before, None if pauses else after)
            case MovePlace("unasked", before, after):
                self.unasked.move(before, after)
            case MoveKey(listed, before, after):
                (self.alike if listed == "alike" else self.exceeding).move(uid, before, after)
            case LoseDevices(group):
                self._lost.append((group, uid))
            case Await(before, after):
                self.awaited.move(uid, before, after)
                self.waits += 1
            case _:
                self._tell_ledger(uid, effect)

    def _tell_ledger(self, uid: str, effect: Effect) -> None:
        match effect:
            case Reserve(claims):
                for claim in claims:
                    self._reserved.setdefault(claim, {})[uid] = None
            case GiveBack(claims):
                for claim in claims:
                    self._give_back(uid, claim)
            case Keep(holds):
                self._ledger.keep(key_of(uid), holds)
            case Expect(before, after):
                self._ledger.expect(before, after)

    def _move_question(self, before: WaitingPlace | None, after: WaitingPlace | None) -> None:
        self.asking.move(before, after)
        if after is not None:
            self.asking.visit(after)

    def _give_back(self, uid: str, claim: str) -> None:
        users = self._reserved[claim]
        del users[uid]
        if not users:
            del self._reserved[claim]
            # A write that had the reservation has ended.
            self._ledger.rollback((claim,))
