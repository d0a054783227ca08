"""How an event moves a pod's record, and what follows from that: pure functions on records.

What follows is data: effects, which the table of the records carries out in their order
(`pod_table.py`). They are read from the record before and after, so no event can miss one.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec.structs import force_setattr

from allocator.state.pauses import Pause
from allocator.state.record_states import RecordEvent, RecordState, state_of
from allocator.state.records import Record, RecordStep, Waiting, WaitingPlace
from drawbridge.dra.allocation import Allocation
from drawbridge.ledger.holdings import Hold
from drawbridge.ledger.ledger import Reservation

MAX_STEPS: Final = 8  # of a record
Part: TypeAlias = Literal["devices", "kept", "paired", "victims", "unanswered"]
PARTS: Final[tuple[Part, ...]] = ("devices", "kept", "paired", "victims", "unanswered")
# The pods that wait, in order: all, those that ask for victims again when their pause is over, and
# those that were refused and have not asked for victims.
PlaceList: TypeAlias = Literal["waiting", "asking", "unasked"]
# The pods that wait, by what they ask: all, and those that wait for room in a quota.
KeyIndex: TypeAlias = Literal["alike", "exceeding"]
KEY_INDEXES: Final[tuple[KeyIndex, ...]] = ("alike", "exceeding")
# What is due: the end of a reservation, of what is kept and of pauses, and of a record whose pod no
# watch shows. Pods without a record, too, are woken to release their claims, and have ended.
Due: TypeAlias = Literal[
    "devices", "kept", "device pause", "victim pause", "unseen", "retry", "end"
]


class HavePart(NamedTuple):
    """The pod has a part, or has none any more."""

    part: Part
    has: bool


class Reserve(NamedTuple):
    """The pod counts on these reservations, by the UIDs of the claims."""

    claims: Mapping[str, Reservation]


class GiveBack(NamedTuple):
    """The pod does not count on these claims any more."""

    claims: Sequence[str]


class LoseDevices(NamedTuple):
    """A member of a group has lost its devices."""

    group: str


class Keep(NamedTuple):
    """The ledger keeps these devices for the pod, and no others."""

    holds: tuple[Hold, ...]


class Expect(NamedTuple):
    """The ledger expects other devices for claims of the pod than before, if it is known which."""

    before: Mapping[str, Allocation | None]
    after: Mapping[str, Allocation | None]


class Await(NamedTuple):
    """The pod waits for the release of other claims than before."""

    before: frozenset[str]
    after: frozenset[str]


class LookAgain(NamedTuple):
    """Something of the pod is due at a time, or at none."""

    kind: Due
    at: float | None


class MovePlace(NamedTuple):
    """The pod has another place in a list, or none any more."""

    listed: PlaceList
    before: WaitingPlace | None
    after: WaitingPlace | None


class MoveKey(NamedTuple):
    """The pod has another key in an index, or none any more."""

    listed: KeyIndex
    before: tuple[bytes, ...]
    after: tuple[bytes, ...]


Effect: TypeAlias = (
    HavePart
    | Reserve
    | GiveBack
    | LoseDevices
    | Keep
    | Expect
    | Await
    | LookAgain
    | MovePlace
    | MoveKey
)


class RecordMove(NamedTuple):
    """The record after an event, its states before and after it, and what follows."""

    record: Record
    state: RecordState
    later: RecordState
    effects: Sequence[Effect]


def move(before: Record, event: RecordEvent, after: Record, now: float) -> RecordMove:
    """Return the move from a record to another one that nobody has yet."""
    state, later = state_of(before), state_of(after)
    if state is not later or event is RecordEvent.WOKEN:
        steps = (*before.steps[1 - MAX_STEPS :], RecordStep(now, event, later))
        force_setattr(after, "steps", steps)
    return RecordMove(after, state, later, _follow(before, after))


def _follow(before: Record, after: Record) -> list[Effect]:
    effects: list[Effect] = []
    for part in PARTS:
        had, has = getattr(before, part), getattr(after, part)
        if had is not has and bool(had) != bool(has):
            effects.append(HavePart(part, has=bool(has)))
    if before.devices is not after.devices:
        _follow_devices(before, after, effects)
    if before.kept is not after.kept:
        _follow_kept(before, after, effects)
    if before.kept is not after.kept or before.paired is not after.paired:
        claims = [_expected_for(each) for each in (before, after)]
        if claims[0] != claims[1]:
            effects.append(Expect(*claims))
    if before.waiting is not after.waiting or before.kept is not after.kept:
        _follow_waiting(before, after, effects)
    begins_or_ends = (before.waiting is None) != (after.waiting is None)
    if begins_or_ends or before.device_pause is not after.device_pause:
        effects.append(LookAgain("device pause", _end_of(after.device_pause, after.waiting)))
    if begins_or_ends or before.victim_pause is not after.victim_pause:
        effects.append(LookAgain("victim pause", _end_of(after.victim_pause, after.waiting)))
    _follow_questions(before, after, effects)
    return effects


def _follow_devices(before: Record, after: Record, effects: list[Effect]) -> None:
    had, has = before.devices, after.devices
    if has is not None:
        effects.append(Reserve(has.reserved))
    if had is not None:
        gone = [claim for claim in had.reserved if has is None or claim not in has.reserved]
        effects.append(GiveBack(gone))
    if has is None and before.group:
        effects.append(LoseDevices(before.group))
    effects.append(LookAgain("devices", None if has is None or has.writing else has.until))


def _follow_kept(before: Record, after: Record, effects: list[Effect]) -> None:
    had, has = before.kept, after.kept
    if had is None or has is None or had.held is not has.held:
        effects.append(Keep(has.held if has else ()))
    pending = [each.pending if each else frozenset[str]() for each in (had, has)]
    if pending[0] != pending[1]:
        effects.append(Await(*pending))
    effects.append(LookAgain("kept", has.until if has else None))


def _expected_for(record: Record) -> dict[str, Allocation | None]:
    """Return what the claims of a pod get that others release."""
    expected = dict[str, Allocation | None]()
    if record.paired:
        expected |= {uid: record.paired.allocations.get(uid) for uid in record.paired.own}
    if record.kept:
        expected |= {uid: record.kept.allocations.get(uid) for uid in record.kept.claims}
    return expected


def _follow_waiting(before: Record, after: Record, effects: list[Effect]) -> None:
    places = [each.waiting.place if each.waiting else None for each in (before, after)]
    if places[0] != places[1]:
        effects.append(MovePlace("waiting", *places))
    for index in KEY_INDEXES:
        keys = [_keys_in(index, each) for each in (before, after)]
        if keys[0] != keys[1]:
            effects.append(MoveKey(index, *keys))


def _keys_in(index: KeyIndex, record: Record) -> tuple[bytes, ...]:
    waiting = record.waiting
    return (record.key,) if waiting and (index == "alike" or waiting.exceeds) else ()


def _follow_questions(before: Record, after: Record, effects: list[Effect]) -> None:
    places = [place_of_question(each) for each in (before, after)]
    is_same = before.victims is after.victims and before.victim_pause is after.victim_pause
    if places[0] != places[1] or not (is_same or places[1] is None):
        effects.append(MovePlace("asking", *places))
    places = [place_of_unasked(each) for each in (before, after)]
    if places[0] != places[1]:
        effects.append(MovePlace("unasked", *places))


def place_of_question(record: Record) -> WaitingPlace | None:
    """Return the place of a pod that asks for victims again, now or when others can have some."""
    victims = record.victims
    asks = victims is not None and (victims.asks or victims.changed is not None)
    return record.waiting.place if record.waiting is not None and asks else None


def place_of_unasked(record: Record) -> WaitingPlace | None:
    """Return the place of a pod that was refused, and that has and asks for no victims."""
    waiting = record.waiting
    if waiting is None or waiting.seen or record.request is None:
        return None
    return waiting.place if record.victims is None and record.kept is None else None


def _end_of(pause: Pause, waiting: Waiting | None) -> float | None:
    """Return when a pod that waits can be woken; None if its pause was over before it waited."""
    return pause.until if waiting is not None and pause.until > waiting.place.since else None
