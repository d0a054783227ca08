"""Records findings as events (events.k8s.io/v1) on the objects that they are about.

`record` does not block. The first finding of its kind creates an event; repetitions are counted and
written to the series of that event. The write rate is limited, namespaces take turns, and an event
that cannot be written is dropped and counted, so that events do not overload the API server.
"""

import asyncio
import logging
import re
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from drawbridge.api_error import ApiError
from drawbridge.cluster.client import ResourceClient
from drawbridge.cluster.errors import NotLeadingError
from drawbridge.cluster.event_series import (
    FORGET_SECONDS,
    InvolvedObject,
    Series,
    SeriesKey,
    SeriesTable,
)
from drawbridge.cluster.lease import micro_time_now
from drawbridge.cluster.resources import ApiObject
from drawbridge.finding import Finding, Severity

_LOG = logging.getLogger("drawbridge.cluster.events")
MAX_NOTE_BYTES: Final = 1024
# Of the message, at the end of a note that is cut.
_BEFORE_REMEDY: Final = 128
MAX_FIELD_LENGTH: Final = 128
MAX_NAME_LENGTH: Final = 253
# The maximum number of series, the writes per second, and the maximum burst of writes.
MAX_SERIES: Final = 2000
RATE: Final = 5.0
BURST: Final = 25
# How often the log says what was dropped.
_REPORT_SECONDS: Final = 600.0
_NAMED_NAMESPACES: Final = 3
# Namespaces that are written to at once, each one event: one without a response delays no other.
_CONCURRENT: Final = 16
_PATIENCE_SECONDS: Final = 1.0


class EventRecorder:
    """Records events: call `record` in the event loop while `run` runs as a task.

    `reporter` becomes `reportingController`, such as `drawbridge.dev/controller`; `instance`
    becomes `reportingInstance`.
    """

    def __init__(
        self,
        events: ResourceClient[ApiObject],
        reporter: str,
        instance: str,
        *,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.dropped = 0
        self._events = events
        self._reporter = reporter
        self._instance = instance[:MAX_FIELD_LENGTH]
        self._now, self._pause = now, pause
        self._series = SeriesTable(MAX_SERIES)
        self._pending = asyncio.Event()
        self._writing: dict[str, asyncio.Task[None]] = {}  # by namespace
        self._tokens = float(BURST)
        self._refilled = now()
        self._unreported: Counter[str] = Counter()  # dropped events by namespace
        self._refusal = ""  # why one of them could not be written
        self._reported = now() - _REPORT_SECONDS

    def record(self, finding: Finding, involved: InvolvedObject, action: str) -> bool:
        """Record a finding about an object; `action` is the event's action, such as `Translate`.

        Returns whether a series starts: a repetition and a finding without a place start none.
        """
        now = self._now()
        self._pending.set()
        # Messages contain text of users. Only what fits into an event is kept.
        note = _shorten_note(finding.sentences, finding.remedy)
        key = SeriesKey(involved, finding.code, finding.severity, action, note)
        current = self._series.get(key)
        if current is not None and now - current.last_recorded < FORGET_SECONDS:
            current.count += 1
            current.last_recorded = now
            return False
        series = Series(key, self._make_event(finding, involved, action, note), now)
        lost = self._series.add(series, now)
        if lost is not None and lost.pending:
            self._count_dropped(lost)
        return lost is not series

    async def run(self) -> None:
        """Write recorded events until cancelled; failures are logged, never raised."""
        try:
            while True:
                await self._pending.wait()
                self._pending.clear()
                if await self.write_due():
                    # More events wait for the rate limit or for the next series update.
                    self._pending.set()
                    await self._pause(1)
        finally:
            for task in self._writing.values():
                task.cancel()

    async def write_due(self) -> bool:
        """Write the due events within the rate limit; returns whether any are left."""
        self._report_dropped()
        has_waited = False
        while not has_waited:
            self._end_writes()
            self._begin_writes()
            if not self._writing:
                break
            tasks, first = self._writing.values(), asyncio.FIRST_COMPLETED
            done, _ = await asyncio.wait(tasks, timeout=_PATIENCE_SECONDS, return_when=first)
            has_waited = not done
        self._report_dropped()
        return bool(self._writing) or self._series.has_pending()

    def _begin_writes(self) -> None:
        """Write one event for each namespace that has its turn."""
        while len(self._writing) < _CONCURRENT and self._has_token():
            series = self._series.take_turn(self._now(), self._writing)
            if series is None:
                return
            self._tokens -= 1
            task = asyncio.create_task(self._write(series))
            self._writing[series.key.involved.namespace] = task

    def _end_writes(self) -> None:
        """Forget the writes that have ended; raises what is a bug."""
        for namespace, task in tuple(self._writing.items()):
            if task.done():
                del self._writing[namespace]
                task.result()

    def _has_token(self) -> bool:
        now = self._now()
        self._tokens = min(BURST, self._tokens + (now - self._refilled) * RATE)
        self._refilled = now
        return self._tokens >= 1

    async def _write(self, series: Series) -> None:
        count = series.count
        try:
            if series.written == 0:
                await self._create(series)
            else:
                await self._update(series, count)
        except (ApiError, NotLeadingError) as error:
            if series.fail(self._now()) or _is_permanent(error):
                self._series.remove(series)
                self._count_dropped(series)
                self._refusal = f"; {series.event['reason']}: {error}"
            return
        series.succeed(count, self._now())

    def _count_dropped(self, series: Series) -> None:
        self.dropped += 1
        self._unreported[series.key.involved.namespace or "(cluster)"] += 1

    def _report_dropped(self) -> None:
        """Log what was dropped since the last report, with the namespaces that lost the most."""
        if self._unreported and self._now() - self._reported >= _REPORT_SECONDS:
            most = ", ".join(
                f"{name} ({count})"
                for name, count in self._unreported.most_common(_NAMED_NAMESPACES)
            )
            text, count = "dropped %d events; most: %s%s", self._unreported.total()
            _LOG.warning(text, count, most, self._refusal)
            self._unreported.clear()
            self._refusal = ""
            self._reported = self._now()

    async def _create(self, series: Series) -> None:
        event = {**series.event, "eventTime": micro_time_now()}
        if series.count > 1:
            event["series"] = _series_field(series.count)
        try:
            await self._events.create(event)
        except ApiError as error:
            # An earlier attempt succeeded, but its response was lost. The name is unique.
            if not error.exists:
                raise

    async def _update(self, series: Series, count: int) -> None:
        metadata = series.event["metadata"]
        name, space = metadata["name"], metadata["namespace"]
        try:
            await self._events.merge(name, {"series": _series_field(count)}, space)
        except ApiError as error:
            if not error.not_found:
                raise
            # The server deletes events after an hour.
            metadata["name"] = _make_name(series.key.involved)
            await self._create(series)

    def _make_event(
        self, finding: Finding, involved: InvolvedObject, action: str, note: str
    ) -> dict[str, Any]:
        is_warning = finding.severity is not Severity.INFO
        return {
            # Events about cluster-scoped objects are in the namespace `default`.
            "metadata": {
                "name": _make_name(involved),
                "namespace": involved.namespace or "default",
            },
            "reportingController": self._reporter,
            "reportingInstance": self._instance,
            "action": action[:MAX_FIELD_LENGTH],
            "reason": finding.code[:MAX_FIELD_LENGTH],
            "type": "Warning" if is_warning else "Normal",
            "regarding": msgspec.to_builtins(involved),
            "note": note,
        }


def _is_permanent(error: ApiError | NotLeadingError) -> bool:
    """Whether a retry fails too: the namespace is gone or terminating, or access is denied."""
    return isinstance(error, NotLeadingError) or error.refused


def _series_field(count: int) -> dict[str, Any]:
    return {"count": count, "lastObservedTime": micro_time_now()}


def _make_name(involved: InvolvedObject) -> str:
    """Make a unique name that starts with the name of the object."""
    tail = secrets.token_hex(8)
    stem = re.sub(r"[^a-z0-9.-]+", "-", involved.name.lower())[: MAX_NAME_LENGTH - len(tail) - 1]
    return f"{stem.strip('.-') or 'event'}.{tail}"


def _shorten_note(text: str, remedy: str) -> str:
    """Shorten a note to the maximum that the API server accepts, in bytes.

    Its middle goes, which quotes what users wrote: the remedy is at the end.
    """
    raw = text.encode()
    if len(raw) <= MAX_NOTE_BYTES:
        return text
    kept = len(remedy.encode()) + _BEFORE_REMEDY if remedy else 0
    kept = kept if kept <= MAX_NOTE_BYTES // 2 else 0
    begin, end = raw[: MAX_NOTE_BYTES - 3 - kept], raw[len(raw) - kept :]
    return f"{begin.decode(errors='ignore')}…{end.decode(errors='ignore')}"
