"""Events (events.k8s.io/v1): findings told on the object they are about, without flooding anybody.

`say` never waits. The first of its kind is created; what is said again is counted and written to
the same event's series now and then. What cannot be written in reasonable time is dropped and
counted: an event is a courtesy, and must not cost the API server what it reports about.
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

from cluster.errors import ApiError, NotLeadingError
from cluster.lease import stamp
from cluster.resources import EVENTS
from cluster.write import Writer
from dra.finding import Finding, Severity

_LOG = logging.getLogger("cluster.events")
NOTE_BYTES: Final = 1024
WORD_LETTERS: Final = 128
NAME_LETTERS: Final = 253
# A series is brought up to date this often, and begun anew when nothing was said for this long:
# the server forgets events after an hour.
SERIES_SECONDS: Final = 60.0
FORGET_SECONDS: Final = 1800.0
# So many series are remembered; so many writes a second are made, and at once after a silence.
SERIES: Final = 2000
RATE: Final = 5.0
BURST: Final = 25
ATTEMPTS: Final = 3


class Reference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The object that an event is about; the uid lets `kubectl describe` find it."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


@dataclass(eq=False)
class _Series:
    """What was said of one thing: `written` of `count` times."""

    about: Reference
    event: dict[str, Any]
    count: int
    last: float
    written: int = 0
    wrote: float = 0.0
    failed: int = 0


class Events:
    """Tells findings as events: `say` anywhere in the loop, `run` beside it.

    `reporter` is the controller's name, as `drawbridge.dev/controller`; `instance` the process.
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
        self._instance = instance[:WORD_LETTERS]
        self._now, self._pause = now, pause
        self._series: dict[tuple[object, ...], _Series] = {}
        self._news = asyncio.Event()
        self._credit = float(BURST)
        self._earned = now()

    def say(self, finding: Finding, about: Reference, action: str) -> None:
        """Tell a finding on an object; `action` is what was being done, as `Translate`."""
        now = self._now()
        key = (about, finding.code, finding.severity, action, finding.message)
        known = self._series.get(key)
        if known is not None and now - known.last < FORGET_SECONDS:
            known.count += 1
            known.last = now
        elif known is None and len(self._series) >= SERIES and not self._forget(now):
            self.dropped += 1
            return
        else:
            event = self._event(finding, about, action)
            self._series[key] = _Series(about, event, count=1, last=now)
        self._news.set()

    async def run(self) -> None:
        """Write what is said, until cancelled; failures are logged, never raised."""
        while True:
            await self._news.wait()
            self._news.clear()
            if await self.step():
                # Something waits for its turn, or for a minute to pass.
                self._news.set()
                await self._pause(1)

    async def step(self) -> bool:
        """Write what is due now, as far as the rate allows; whether something is left."""
        for key, series in list(self._series.items()):
            if self._is_due(series):
                if not self._may_write():
                    break
                await self._write(key, series)
        return any(series.written < series.count for series in self._series.values())

    def _is_due(self, series: _Series) -> bool:
        if series.written == series.count:
            return False
        return series.written == 0 or self._now() - series.wrote >= SERIES_SECONDS

    def _may_write(self) -> bool:
        now = self._now()
        self._credit = min(BURST, self._credit + (now - self._earned) * RATE)
        self._earned = now
        if self._credit < 1:
            return False
        self._credit -= 1
        return True

    async def _write(self, key: tuple[object, ...], series: _Series) -> None:
        count = series.count
        try:
            if series.written == 0:
                await self._create(series)
            else:
                await self._repeat(series, count)
        except (ApiError, NotLeadingError) as error:
            series.failed += 1
            if _is_refused(error) or series.failed == ATTEMPTS:
                self.dropped += 1
                del self._series[key]
                _LOG.warning("the event %s is dropped: %s", series.event["reason"], error)
            return
        series.written, series.wrote, series.failed = count, self._now(), 0

    async def _create(self, series: _Series) -> None:
        event = {**series.event, "eventTime": stamp()}
        if series.count > 1:
            event["series"] = _told(series.count)
        try:
            await self._writer.create(EVENTS, event)
        except ApiError as error:
            # The answer to an earlier attempt was lost; the name is nobody else's.
            if error.reason != "AlreadyExists":
                raise

    async def _repeat(self, series: _Series, count: int) -> None:
        metadata = series.event["metadata"]
        name, space = metadata["name"], metadata["namespace"]
        try:
            await self._writer.patch(EVENTS, name, {"series": _told(count)}, namespace=space)
        except ApiError as error:
            if not error.missing:
                raise
            # The server has forgotten it, which it does after an hour.
            metadata["name"] = _name(series.about)
            await self._create(series)

    def _event(self, finding: Finding, about: Reference, action: str) -> dict[str, Any]:
        warns = finding.severity is not Severity.INFO
        return {
            # Of an object without a namespace, events are kept in `default`.
            "metadata": {"name": _name(about), "namespace": about.namespace or "default"},
            "reportingController": self._reporter,
            "reportingInstance": self._instance,
            "action": action[:WORD_LETTERS],
            "reason": finding.code[:WORD_LETTERS],
            "type": "Warning" if warns else "Normal",
            "regarding": msgspec.to_builtins(about),
            "note": _note(f"{finding.message} {finding.remedy}".strip()),
        }

    def _forget(self, now: float) -> bool:
        """Make room: what was written and not said for long goes first."""
        for age in (FORGET_SECONDS, SERIES_SECONDS):
            old = [
                key
                for key, series in self._series.items()
                if series.written == series.count and now - series.last >= age
            ]
            for key in old:
                del self._series[key]
            if old:
                return True
        return False


def _is_refused(error: ApiError | NotLeadingError) -> bool:
    """Tell whether it would be so again: the namespace is gone or going, or we may not."""
    if isinstance(error, NotLeadingError):
        return True
    return 400 <= error.code < 500 and error.code != 429


def _told(count: int) -> dict[str, Any]:
    return {"count": count, "lastObservedTime": stamp()}


def _name(about: Reference) -> str:
    """Give a name that nobody else has, and that an object's name may be part of."""
    tail = secrets.token_hex(8)
    stem = re.sub(r"[^a-z0-9.-]+", "-", about.name.lower())[: NAME_LETTERS - len(tail) - 1]
    return f"{stem.strip('.-') or 'event'}.{tail}"


def _note(text: str) -> str:
    """Shorten a note to what the API server takes, which counts bytes."""
    raw = text.encode()
    if len(raw) <= NOTE_BYTES:
        return text
    return raw[: NOTE_BYTES - 3].decode(errors="ignore") + "…"
