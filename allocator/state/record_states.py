"""The states of a pod's record, the events that change it, and where each can lead.

A state is read from the parts of a record, so that no record contradicts its state. `TRANSITIONS`
has every move from one state to another, and `STAYS` where an event changes a record that stays as
it is. What they do not have cannot happen; the table of the records counts it if it does.
"""

import enum
from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

from allocator.state.records import Record


class RecordState(enum.StrEnum):
    """What a pod has; of several that hold, the last one counts."""

    UNKNOWN = "unknown"
    SEEN = "seen"
    WAITING = "waiting"
    PREEMPTING = "preempting"
    HELD = "held"
    PROMISED = "promised"
    RESERVED = "reserved"
    WRITING = "writing"

    __hash__ = str.__hash__  # that of an enumeration takes longer


class RecordEvent(enum.StrEnum):
    """What changes a record; the value goes on with a sentence that begins with the pod."""

    ASKED = "is asked about"
    UNUSABLE = "cannot use its claims"
    ANSWERED = "is answered"
    LEFT = "is woken no more"
    KEPT = "gets what others release"
    NOT_KEPT = "has nothing kept any more"
    PROMISED = "is promised devices"
    RESERVED = "is reserved"
    HELD_BACK = "is given up for now"
    GIVEN_BACK = "gives its devices back"
    TAKEN_OVER = "loses its promise to a higher priority"
    EXPIRED = "was too slow"
    LOST = "lost a device or a claim"
    WRITING = "is to be bound"
    WRITTEN = "is written"
    NOT_WRITTEN = "is not written, and undone"
    TERM_ENDED = "is in another term"
    ENDED = "is bound, ended or deleted"
    DROPPED = "is one too many"
    # These change what a record says, and never the state.
    SEARCHED = "was searched for, or has another rank"
    PAUSED = "is not woken before a time"
    WOKEN = "is woken"
    ASKS_VICTIMS = "asks for victims, or will"
    PAIRED = "waits for devices that are being released"
    UNPAIRED = "does not wait for these any more"
    RENEWED = "keeps its devices longer"
    SHARED = "shares a claim that gets other devices"
    KEPT_LONGER = "has more time for what is kept"

    __hash__ = str.__hash__


_S: TypeAlias = RecordState
Moves: TypeAlias = Mapping[RecordState, frozenset[RecordState]]
# What a pod can be when nothing is kept for it, and when nothing is reserved.
_ALONE: Final = frozenset({_S.UNKNOWN, _S.SEEN, _S.WAITING})
_UNRESERVED: Final = _ALONE | {_S.PREEMPTING, _S.HELD}


def _from(*states: RecordState, to: Collection[RecordState]) -> Moves:
    return dict.fromkeys(states, frozenset(to))


TRANSITIONS: Final[Mapping[RecordEvent, Moves]] = {
    RecordEvent.ASKED: _from(_S.UNKNOWN, to={_S.SEEN}),
    RecordEvent.UNUSABLE: {
        **_from(_S.SEEN, to={_S.UNKNOWN}),
        **_from(_S.PREEMPTING, _S.HELD, to=_ALONE),
    },
    RecordEvent.ANSWERED: _from(_S.SEEN, to={_S.WAITING}),
    RecordEvent.LEFT: _from(_S.WAITING, to={_S.SEEN, _S.UNKNOWN}),
    RecordEvent.KEPT: {
        **_from(_S.UNKNOWN, to={_S.HELD}),
        **_from(_S.SEEN, _S.WAITING, to={_S.PREEMPTING, _S.HELD}),
    },
    RecordEvent.NOT_KEPT: _from(_S.PREEMPTING, _S.HELD, to=_ALONE),
    RecordEvent.PROMISED: _from(_S.SEEN, _S.WAITING, _S.PREEMPTING, _S.HELD, to={_S.PROMISED}),
    RecordEvent.RESERVED: _from(_S.SEEN, _S.WAITING, _S.PROMISED, to={_S.RESERVED}),
    RecordEvent.HELD_BACK: _from(_S.RESERVED, to={_S.PROMISED}),
    RecordEvent.GIVEN_BACK: _from(_S.PROMISED, _S.RESERVED, to=_UNRESERVED),
    RecordEvent.TAKEN_OVER: _from(_S.PROMISED, to=_UNRESERVED),
    RecordEvent.EXPIRED: _from(_S.PROMISED, _S.RESERVED, to=_UNRESERVED),
    RecordEvent.LOST: _from(_S.PROMISED, _S.RESERVED, to=_UNRESERVED),
    RecordEvent.WRITING: _from(_S.PROMISED, _S.RESERVED, to={_S.WRITING}),
    RecordEvent.WRITTEN: _from(_S.WRITING, to=_UNRESERVED),
    RecordEvent.NOT_WRITTEN: _from(_S.WRITING, to=_UNRESERVED),
    RecordEvent.TERM_ENDED: {
        **_from(_S.PREEMPTING, _S.HELD, to=_ALONE),
        **_from(_S.PROMISED, _S.RESERVED, _S.WRITING, to=_UNRESERVED),
    },
    RecordEvent.ENDED: _from(
        _S.SEEN,
        _S.WAITING,
        _S.PREEMPTING,
        _S.HELD,
        _S.PROMISED,
        _S.RESERVED,
        to={_S.UNKNOWN},
    ),
    RecordEvent.DROPPED: _from(_S.SEEN, _S.WAITING, to={_S.UNKNOWN}),
}


_KNOWN: Final = frozenset(RecordState) - {_S.UNKNOWN}
_WITH_DEVICES: Final = frozenset({_S.PROMISED, _S.RESERVED, _S.WRITING})
STAYS: Final[Mapping[RecordEvent, Collection[RecordState]]] = {
    RecordEvent.ASKED: _KNOWN,
    RecordEvent.UNUSABLE: {_S.SEEN, _S.WAITING, _S.WRITING},
    RecordEvent.ANSWERED: _KNOWN - {_S.SEEN},
    RecordEvent.LEFT: _KNOWN - {_S.WAITING},
    RecordEvent.KEPT: {_S.PREEMPTING, _S.HELD, *_WITH_DEVICES},
    RecordEvent.NOT_KEPT: {_S.SEEN, _S.WAITING, *_WITH_DEVICES},
    RecordEvent.RESERVED: {_S.RESERVED, _S.WRITING},
    RecordEvent.HELD_BACK: {_S.PROMISED},
    RecordEvent.GIVEN_BACK: _KNOWN - _WITH_DEVICES,
    RecordEvent.WRITING: {_S.WRITING},
    RecordEvent.TERM_ENDED: {_S.SEEN, _S.WAITING},
    RecordEvent.ENDED: {_S.UNKNOWN, _S.WRITING},
    RecordEvent.SEARCHED: _KNOWN,
    RecordEvent.PAUSED: _KNOWN,
    RecordEvent.WOKEN: _KNOWN,
    RecordEvent.ASKS_VICTIMS: _KNOWN,
    RecordEvent.PAIRED: _KNOWN,
    RecordEvent.UNPAIRED: _KNOWN,
    RecordEvent.RENEWED: _WITH_DEVICES,
    RecordEvent.SHARED: _WITH_DEVICES,
    RecordEvent.KEPT_LONGER: {_S.PREEMPTING, _S.HELD, *_WITH_DEVICES},
}


def is_expected(state: RecordState, event: RecordEvent, later: RecordState) -> bool:
    """Whether an event can move a record from a state to another one, or change it there."""
    if state is later:
        return state in STAYS.get(event, ())
    return later in TRANSITIONS.get(event, {}).get(state, ())


def state_of(record: Record) -> RecordState:
    """Return the state of a record."""
    devices, kept = record.devices, record.kept
    if devices is not None:
        if devices.writing:
            return RecordState.WRITING
        return RecordState.PROMISED if devices.promised else RecordState.RESERVED
    if kept is not None:
        return RecordState.PREEMPTING if kept.planned is None else RecordState.HELD
    if record.waiting is not None:
        return RecordState.WAITING
    if record.request is None and record == Record(
        record.uid, record.namespace, steps=record.steps
    ):
        return RecordState.UNKNOWN
    return RecordState.SEEN
