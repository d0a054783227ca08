"""The findings that wait to become events: a bounded table in which namespaces take turns.

A namespace with many findings delays only its own. Within a namespace severe findings are first;
of equally severe ones, a new finding is before the repetitions of an older one. If the table is
full, the namespace with the most series loses its least severe one.
"""

from collections.abc import Iterator
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

    @property
    def rank(self) -> tuple[int, int]:
        """The order among the series of a namespace: the lowest is written first."""
        return _RANKS[self.key.severity], self.written

    def succeed(self, count: int, now: float) -> None:
        """Record that the event has `count` occurrences."""
        self.written, self.not_before, self.failures = count, now + SERIES_SECONDS, 0

    def fail(self, now: float) -> bool:
        """Record that a write failed; return whether to give up."""
        self.failures, self.not_before = self.failures + 1, now + RETRY_SECONDS
        return self.failures == MAX_FAILURES


class SeriesTable:
    """At most `limit` series."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._forgot = -_FORGET_EVERY
        # In the order of turns. No namespace is empty.
        self._namespaces: dict[str, dict[SeriesKey, Series]] = {}

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Series]:
        for namespace in self._namespaces.values():
            yield from namespace.values()

    def get(self, key: SeriesKey) -> Series | None:
        """Return the series of a finding."""
        return self._namespaces.get(key.involved.namespace, {}).get(key)

    def add(self, series: Series, now: float) -> Series | None:
        """Add a series, or replace the one with its key; return the one that loses its place."""
        lost = None
        if self.get(series.key) is None and self._size >= self._limit and not self._forget(now):
            lost = self._choose_loser(series)
            if lost is series:
                return series
            self.remove(lost)
        self.remove(series)
        self._namespaces.setdefault(series.key.involved.namespace, {})[series.key] = series
        self._size += 1
        return lost

    def remove(self, series: Series) -> None:
        """Remove the series with the same key, if there is one."""
        name = series.key.involved.namespace
        if self._namespaces.get(name, {}).pop(series.key, None) is not None:
            self._size -= 1
            if not self._namespaces[name]:
                del self._namespaces[name]

    def take_turn(self, now: float) -> Series | None:
        """Return the series to write next, and give the following turn to another namespace."""
        for name, members in self._namespaces.items():
            due = [each for each in members.values() if each.pending and each.not_before <= now]
            if due:
                self._namespaces[name] = self._namespaces.pop(name)
                return min(due, key=lambda series: series.rank)
        return None

    def has_pending(self) -> bool:
        """Tell whether occurrences wait, also those that are not due yet."""
        return any(series.pending for series in self)

    def _choose_loser(self, new: Series) -> Series:
        """Choose among the namespace with most series, in which `new` counts, the least severe."""
        own = new.key.involved.namespace
        most = max(map(len, self._namespaces.values()), default=0)
        if len(self._namespaces.get(own, {})) + 1 >= most:
            members, loser = self._namespaces.get(own, {}), new
        else:
            members = next(each for each in self._namespaces.values() if len(each) == most)
            loser = next(reversed(members.values()))
        # Of equal ones, what was recorded first keeps its place.
        for series in members.values():
            if series.rank > loser.rank:
                loser = series
        return loser

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
