"""Reads Events of either Event API: what they are about, when they were seen, what they say."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_mapping

_MAX_EVENTS: Final = 5


class SeenEvent(msgspec.Struct, frozen=True):
    """What an Event says, and when it was last seen; empty if that is unknown."""

    time: str
    reason: str
    message: str

    @property
    def text(self) -> str:
        """The reason and the message."""
        return f"{self.reason}: {self.message}"


def event_subject(event: Value) -> Mapping[str, Value]:
    """Return the object that an event, of either Event API, is about."""
    subjects = (get_value(event, (part,)) for part in ("regarding", "involvedObject"))
    return as_mapping(next(filter(None, subjects), None))


def subject_name(event: Value) -> tuple[str, str]:
    """Return namespace and name of what an event is about; an empty namespace is unknown."""
    subject = event_subject(event)
    namespace = subject.get("namespace") or get_value(event, ("metadata", "namespace"))
    return _text(namespace), _text(subject.get("name"))


def is_about(event: Value, kind: str, metadata: Mapping[str, Value]) -> bool:
    """Whether an event is about this object, and not about an earlier one with its name."""
    subject, uid = event_subject(event), metadata.get("uid")
    if (subject.get("kind"), subject.get("name")) != (kind, metadata.get("name")):
        return False
    namespace, own = subject_name(event)[0], metadata.get("namespace")
    if namespace and own and namespace != own:
        return False
    return not uid or subject.get("uid") in (None, "", uid)


def time_of_event(event: Value) -> str:
    """Return when an event, of either Event API, was last seen; empty if it does not say."""
    fields = as_mapping(event)
    last = get_value(event, ("series", "lastObservedTime"))
    dated = ("lastTimestamp", "deprecatedLastTimestamp", "eventTime", "firstTimestamp")
    return _text(last or next((fields[key] for key in dated if fields.get(key)), None))


def describe_events(events: Sequence[Value]) -> list[SeenEvent]:
    """Return the latest distinct events, oldest first."""
    last_seen: dict[tuple[str, str], str] = {}
    for event in map(as_mapping, events):
        text = _text(event.get("reason")), _text(event.get("note") or event.get("message"))
        last_seen[text] = max(last_seen.get(text, ""), time_of_event({**event}))
    described = (SeenEvent(time, *text) for text, time in last_seen.items())
    return sorted(described, key=lambda each: (each.time, each.text))[-_MAX_EVENTS:]


def _text(value: Value) -> str:
    return value if isinstance(value, str) else "" if value is None else f"{value}"
