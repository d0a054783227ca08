"""The findings that wait to become events: a bounded table in which namespaces take turns.

A namespace with many findings delays only its own. Within a namespace severe findings are first;
of equally severe ones, a new finding is before the repetitions of an older one. If the table is
full, the namespace with the most series loses its least severe one.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from drawbridge.finding import Severity

# How often a series is updated. After a silence of FORGET_SECONDS a new event is created, because
# the server deletes events after an hour.
SERIES_SECONDS: Final = 60.0
FORGET_SECONDS: Final = 1800.0
RETRY_SECONDS: Final = 1.0
MAX_FAILURES: Final = 3
# How often a full table looks for series to forget, which goes over all of them.
_FORGET_EVERY: Final = 1.0
_RANKS: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


class InvolvedObject(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The object that an event is about; `kubectl describe` finds events by uid."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class SeriesKey(NamedTuple):
    """What makes two findings occurrences of the same event."""

    involved: InvolvedObject
    code: str
    severity: Severity
    action: str
    note: str


@dataclass(eq=False)
class Series:
    """The occurrences of one finding: `count` recorded, `written` of them in the event."""

    key: SeriesKey
    event: dict[str, Any]
    last_recorded: float
    count: int = 1
    written: int = 0
    not_before: float = 0.0  # when the next write may be tried
    failures: int = 0

    @property
    def pending(self) -> bool:
        """Whether occurrences are not in the event yet."""
        return self.written < self.count

    def succeed(self, count: int, now: float) -> None:
        """Record that the event has `count` occurrences."""
        self.written, self.not_before, self.failures = count, now + SERIES_SECONDS, 0

    def fail(self, now: float) -> bool:
        """Record that a write failed; return whether to give up."""
        self.failures, self.not_before = self.failures + 1, now + RETRY_SECONDS
        return self.failures == MAX_FAILURES


# The series of a namespace: a mapping for each severity, the most severe one first.
_Members = tuple[dict[SeriesKey, Series], ...]


class SeriesTable:
    """At most `limit` series."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._forgot = -_FORGET_EVERY
        # In the order of turns. No namespace is empty.
        self._namespaces: dict[str, _Members] = {}

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Series]:
        for members in self._namespaces.values():
            yield from _all(members)

    def get(self, key: SeriesKey) -> Series | None:
        """Return the series of a finding."""
        members = self._namespaces.get(key.involved.namespace)
        return members[_RANKS[key.severity]].get(key) if members else None

    def add(self, series: Series, now: float) -> Series | None:
        """Add a series, or replace the one with its key; return the one that loses its place."""
        lost = None
        if self.get(series.key) is None and self._size >= self._limit and not self._forget(now):
            lost = self._choose_loser(series)
            if lost is series:
                return series
            self.remove(lost)
        self.remove(series)
        members = self._namespaces.setdefault(
            series.key.involved.namespace, tuple({} for _ in _RANKS)
        )
        members[_RANKS[series.key.severity]][series.key] = series
        self._size += 1
        return lost

    def remove(self, series: Series) -> None:
        """Remove the series with the same key, if there is one."""
        if self.get(series.key) is None:
            return
        name = series.key.involved.namespace
        del self._namespaces[name][_RANKS[series.key.severity]][series.key]
        self._size -= 1
        if not any(self._namespaces[name]):
            del self._namespaces[name]

    def take_turn(self, now: float, without: Collection[str] = ()) -> Series | None:
        """Return the series to write next, and give the following turn to another namespace."""
        for name, members in self._namespaces.items():
            if name in without:
                continue
            for alike in members:
                due = [each for each in alike.values() if each.pending and each.not_before <= now]
                if due:
                    self._namespaces[name] = self._namespaces.pop(name)
                    return min(due, key=lambda series: series.written)
        return None

    def has_pending(self) -> bool:
        """Tell whether occurrences wait, also those that are not due yet."""
        return any(series.pending for series in self)

    def _choose_loser(self, new: Series) -> Series:
        """Choose among the namespace with most series, in which `new` counts, the least severe.

        Of equally severe ones, what was recorded first keeps its place.
        """
        own = self._namespaces.get(new.key.involved.namespace, ())
        most = max(self._namespaces.values(), key=_count)
        is_own = _count(own) + 1 >= _count(most)
        members = own if is_own else most
        mildest = max((rank for rank, alike in enumerate(members) if alike), default=-1)
        if is_own and _RANKS[new.key.severity] >= mildest:
            return new
        return next(reversed(members[mildest].values()))

    def _forget(self, now: float) -> bool:
        """Remove written series that were silent for the longest time; False if there are none."""
        if now - self._forgot < _FORGET_EVERY:
            return False
        self._forgot = now
        for age in (FORGET_SECONDS, SERIES_SECONDS):
            old = [
                series
                for series in self
                if not series.pending and now - series.last_recorded >= age
            ]
            for series in old:
                self.remove(series)
            if old:
                return True
        return False


def _all(members: _Members) -> Iterator[Series]:
    return (series for alike in members for series in alike.values())


def _count(members: _Members) -> int:
    return sum(map(len, members))
