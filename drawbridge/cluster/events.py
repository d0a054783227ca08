"""Records findings as events (events.k8s.io/v1) on the objects that they are about.

`record` does not block. The first finding of its kind creates an event; repetitions are counted and
written to the series of that event. The write rate is limited, and an event that cannot be written
is dropped and counted, so that events do not overload the API server.
"""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from drawbridge.cluster.errors import ApiError, NotLeadingError
from drawbridge.cluster.lease import format_micro_time
from drawbridge.cluster.resources import EVENTS
from drawbridge.cluster.write import Writer
from drawbridge.finding import Finding, Severity

_LOG = logging.getLogger("drawbridge.cluster.events")
MAX_NOTE_BYTES: Final = 1024
MAX_FIELD_LENGTH: Final = 128
MAX_NAME_LENGTH: Final = 253
# How often a series is updated. After a silence of FORGET_SECONDS a new event is created, because
# the server deletes events after an hour.
SERIES_SECONDS: Final = 60.0
FORGET_SECONDS: Final = 1800.0
# The maximum number of series, the writes per second, and the maximum burst of writes.
MAX_SERIES: Final = 2000
RATE: Final = 5.0
BURST: Final = 25
MAX_FAILURES: Final = 3


class InvolvedObject(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The object that an event is about; `kubectl describe` finds events by uid."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


@dataclass(eq=False)
class _Series:
    """The occurrences of one finding: `count` recorded, `written` of them in the event."""

    involved: InvolvedObject
    event: dict[str, Any]
    count: int
    last_recorded: float
    written: int = 0
    last_written: float = 0.0
    failures: int = 0


class EventRecorder:
    """Records events: call `record` in the event loop while `run` runs as a task.

    `reporter` becomes `reportingController`, such as `drawbridge.dev/controller`; `instance`
    becomes `reportingInstance`.
    """

    def __init__(
        self,
        writer: Writer,
        reporter: str,
        instance: str,
        *,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.dropped = 0
        self._writer = writer
        self._reporter = reporter
        self._instance = instance[:MAX_FIELD_LENGTH]
        self._now, self._pause = now, pause
        self._series: dict[tuple[object, ...], _Series] = {}
        self._pending = asyncio.Event()
        self._tokens = float(BURST)
        self._refilled = now()

    def record(self, finding: Finding, involved: InvolvedObject, action: str) -> None:
        """Record a finding about an object; `action` is the event's action, such as `Translate`."""
        now = self._now()
        # Messages contain text of users. Only what fits into an event is kept.
        note = _shorten_note(f"{finding.message} {finding.remedy}".strip())
        key = (involved, finding.code, finding.severity, action, note)
        known = self._series.get(key)
        if known is not None and now - known.last_recorded < FORGET_SECONDS:
            known.count += 1
            known.last_recorded = now
        elif known is None and len(self._series) >= MAX_SERIES and not self._forget(now):
            self.dropped += 1
            return
        else:
            event = self._make_event(finding, involved, action, note)
            self._series[key] = _Series(involved, event, count=1, last_recorded=now)
        self._pending.set()

    async def run(self) -> None:
        """Write recorded events until cancelled; failures are logged, never raised."""
        while True:
            await self._pending.wait()
            self._pending.clear()
            if await self.write_due():
                # More events are waiting for the rate limit or for the next series update.
                self._pending.set()
                await self._pause(1)

    async def write_due(self) -> bool:
        """Write the due events within the rate limit; returns whether any are left."""
        for key, series in list(self._series.items()):
            if self._is_due(series):
                if not self._take_token():
                    break
                await self._write(key, series)
        return any(series.written < series.count for series in self._series.values())

    def _is_due(self, series: _Series) -> bool:
        if series.written == series.count:
            return False
        return series.written == 0 or self._now() - series.last_written >= SERIES_SECONDS

    def _take_token(self) -> bool:
        now = self._now()
        self._tokens = min(BURST, self._tokens + (now - self._refilled) * RATE)
        self._refilled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    async def _write(self, key: tuple[object, ...], series: _Series) -> None:
        count = series.count
        try:
            if series.written == 0:
                await self._create(series)
            else:
                await self._update(series, count)
        except (ApiError, NotLeadingError) as error:
            series.failures += 1
            if _is_permanent(error) or series.failures == MAX_FAILURES:
                self.dropped += 1
                del self._series[key]
                _LOG.warning("dropped the event %s: %s", series.event["reason"], error)
            return
        series.written, series.last_written, series.failures = count, self._now(), 0

    async def _create(self, series: _Series) -> None:
        event = {**series.event, "eventTime": format_micro_time()}
        if series.count > 1:
            event["series"] = _series_field(series.count)
        try:
            await self._writer.create(EVENTS, event)
        except ApiError as error:
            # An earlier attempt succeeded, but its response was lost. The name is unique.
            if error.reason != "AlreadyExists":
                raise

    async def _update(self, series: _Series, count: int) -> None:
        metadata = series.event["metadata"]
        name, space = metadata["name"], metadata["namespace"]
        try:
            await self._writer.patch(
                EVENTS, name, {"series": _series_field(count)}, namespace=space
            )
        except ApiError as error:
            if not error.not_found:
                raise
            # The server deletes events after an hour.
            metadata["name"] = _make_name(series.involved)
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

    def _forget(self, now: float) -> bool:
        """Remove written series that were silent for the longest time; False if there are none."""
        for age in (FORGET_SECONDS, SERIES_SECONDS):
            old = [
                key
                for key, series in self._series.items()
                if series.written == series.count and now - series.last_recorded >= age
            ]
            for key in old:
                del self._series[key]
            if old:
                return True
        return False


def _is_permanent(error: ApiError | NotLeadingError) -> bool:
    """Whether a retry fails too: the namespace is gone or terminating, or access is denied."""
    if isinstance(error, NotLeadingError):
        return True
    return 400 <= error.code < 500 and error.code != 429


def _series_field(count: int) -> dict[str, Any]:
    return {"count": count, "lastObservedTime": format_micro_time()}


def _make_name(involved: InvolvedObject) -> str:
    """Make a unique name that starts with the name of the object."""
    tail = secrets.token_hex(8)
    stem = re.sub(r"[^a-z0-9.-]+", "-", involved.name.lower())[: MAX_NAME_LENGTH - len(tail) - 1]
    return f"{stem.strip('.-') or 'event'}.{tail}"


def _shorten_note(text: str) -> str:
    """Shorten a note to the maximum that the API server accepts, in bytes."""
    raw = text.encode()
    if len(raw) <= MAX_NOTE_BYTES:
        return text
    return raw[: MAX_NOTE_BYTES - 3].decode(errors="ignore") + "…"
