"""Write logs as one JSON object per line to standard error, safe to show in a terminal.

Each line has `ts`, `level`, `logger`, `msg`, and the fields of the caller. Only unhandled
exceptions have a stack. Warnings of Python, by which pure code tells of its bugs, are lines, too.
"""

import asyncio
import contextlib
import functools
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TextIO

import msgspec
from aiohttp.http_exceptions import HttpProcessingError

from drawbridge.bounded_cache import BoundedCache
from drawbridge.finding import REPEAT_SECONDS, Finding
from drawbridge.process import metrics

LEVELS: Final = ("debug", "info", "warning", "error")
# JSON escapes C0 control characters only. Names from users may contain other characters that move
# the cursor of a terminal or reverse text.
_UNSAFE: Final = {
    code: f"\\u{code:04x}"
    for code in (*range(0x7F, 0xA0), *range(0x200B, 0x2010), *range(0x2028, 0x202F), 0xFEFF)
} | {code: f"\\u{code:04x}" for code in range(0x2066, 0x206A)}
_NAMES: Final = {getattr(logging, name.upper()): name for name in LEVELS}
_ENCODER: Final = msgspec.json.Encoder(enc_hook=str)
_MAX_TEXT: Final = 4096
_MAX_STACK: Final = 16384
_MAX_ITEMS: Final = 64
_MAX_STACKS: Final = 256
_KNOWN_STACK: Final = "as in a line of the last hour"
FLUSH_DELAY: Final = 0.1  # seconds that a buffered line may wait
_MAX_BUFFERED: Final = 256

_Raised = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]
_BufferedLine = tuple[float, int, str, str, Mapping[str, object]]


class JSONLineFormatter(logging.Formatter):
    """Formats any record as one line of JSON; a stack that repeats is in one line an hour."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._stacks: BoundedCache[tuple[object, ...], bool] = BoundedCache(_MAX_STACKS)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. A value without a JSON representation is converted to text."""
        fields: Mapping[str, object] = getattr(record, "fields", {})
        own = _build_header(record.created, record.levelno, record.name, record.getMessage())
        content = {**own, **fields, **own}  # the header is first, and no field replaces it
        if record.exc_info and record.exc_info[0]:
            content["error"] = _cut(f"{record.exc_info[0].__name__}: {record.exc_info[1]}")
            is_known = self._knows_stack(record, record.exc_info)
            stack = _KNOWN_STACK if is_known else self.formatException(record.exc_info)
            content["stack"] = _cut(stack, _MAX_STACK)
        return _encode_line(content)

    def _knows_stack(self, record: logging.LogRecord, raised: _Raised) -> bool:
        """Whether a line of the last hour has it: each request of a tenant can end in one bug."""
        kind, _, trace = raised
        # A set, because a tenant decides how deep a document is.
        lines = frozenset((at.f_code, line) for at, line in traceback.walk_tb(trace))
        key, now = (record.name, record.msg, kind, lines), self._now()
        is_known = self._stacks.get(key, now) is not None
        if not is_known:
            self._stacks.put(key, value=True, until=now + REPEAT_SECONDS)
        return is_known


class _LineHandler(logging.StreamHandler[TextIO]):
    """Writes lines, and buffers those that occur for every translated pod.

    Formatting and writing each of these lines between two requests would cost three times as much.
    All other lines are written at once, after the buffered ones.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._buffered: list[_BufferedLine] = []
        self._flush_loop: asyncio.AbstractEventLoop | None = None  # has a flush scheduled

    def write(
        self, level: int, name: str, msg: str, fields: Mapping[str, object], *, buffered: bool
    ) -> None:
        self._buffered.append((time.time(), level, name, msg, fields))
        if not buffered or len(self._buffered) > _MAX_BUFFERED or not self._schedule_flush():
            self.flush()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record after all buffered lines, and count it if it has a stack."""
        self.flush()
        if record.exc_info and record.levelno >= logging.ERROR:
            metrics.UNHANDLED_EXCEPTIONS.inc()
        super().emit(record)

    def flush(self) -> None:
        """Write all buffered lines."""
        buffered, self._buffered, self._flush_loop = self._buffered, [], None
        lines = [_format_line(*each) for each in buffered]
        # A closed stream must not fail a request.
        with contextlib.suppress(OSError, ValueError):
            if lines:
                self.stream.write(self.terminator.join([*lines, ""]))
            super().flush()

    def _schedule_flush(self) -> bool:
        running = _find_running_loop()
        if running is not None and self._flush_loop is not running:
            running.call_later(FLUSH_DELAY, self.flush)
            self._flush_loop = running
        return running is not None


class _ClientErrorFilter(logging.Filter):
    """Logs malformed requests at info and without a stack, because clients cause them."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record, and remove the stack of client errors."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError | OSError):
            # The text of the first ones quotes the request, such as a token in it.
            text = "" if isinstance(error, HttpProcessingError) else f": {error}"
            record.fields = {"error": _cut(f"{type(error).__name__}{text}", 300)}
            record.exc_info = None
            record.levelno, record.levelname = logging.INFO, "INFO"
        return True


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Send all logs of this process to `stream`, or to standard error by default."""
    # Standard error may have been closed before the start of the process.
    fallback = Path(os.devnull)
    handler = _LineHandler(stream or sys.stderr or fallback.open("w", encoding="utf-8"))
    handler.setFormatter(JSONLineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    # Without this, the probes of the kubelet fill the log.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def log_event(log: logging.Logger, level: int, msg: str, **fields: object) -> None:
    """Log a line with fields."""
    _log(log, level, msg, fields, buffered=False)


def log_finding(log: logging.Logger, finding: Finding, **fields: object) -> None:
    """Log a finding at the level of its severity."""
    content: Any = msgspec.to_builtins(finding)
    level = getattr(logging, finding.severity.upper())
    log_event(log, level, finding.message, **fields, finding=content)


def log_event_buffered(log: logging.Logger, level: int, msg: str, **fields: object) -> None:
    """Log a frequent line: it is written within 0.1 seconds, together with others."""
    _log(log, level, msg, fields, buffered=level <= logging.INFO)


def _log(
    log: logging.Logger, level: int, msg: str, fields: Mapping[str, object], *, buffered: bool
) -> None:
    if not log.isEnabledFor(level):
        return
    # Other handlers need a record. Without them, skip it: it is most of the cost of a line.
    only = logging.root.handlers[0] if len(logging.root.handlers) == 1 else None
    if isinstance(only, _LineHandler):
        only.write(level, log.name, msg, fields, buffered=buffered)
    else:
        log.log(level, "%s", msg, extra={"fields": fields})


def connection_logger() -> logging.Logger:
    """Return the logger for an HTTP server, for errors before a request is complete."""
    log = logging.getLogger("serve.connections")
    if not any(isinstance(each, _ClientErrorFilter) for each in log.filters):
        log.addFilter(_ClientErrorFilter())
    return log


def _find_running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:  # no loop runs in this thread
        return None


def _format_line(
    created: float, level: int, name: str, msg: str, fields: Mapping[str, object]
) -> str:
    own = _build_header(created, level, name, msg)
    return _encode_line({**own, **fields, **own})


def _build_header(created: float, level: int, name: str, msg: str) -> dict[str, Any]:
    level_name = _NAMES.get(level) or logging.getLevelName(level).lower()
    return {"ts": _format_time(created), "level": level_name, "logger": name, "msg": _cut(msg)}


def _format_time(seconds: float) -> str:
    full_seconds = int(seconds)
    return f"{_format_second(full_seconds)}.{int((seconds - full_seconds) * 1000):03}Z"


@functools.lru_cache(maxsize=2)
def _format_second(seconds: int) -> str:
    # Thousands of lines share a second, and formatting it costs a third of a line.
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _encode_line(content: Mapping[str, object]) -> str:
    try:
        raw = _ENCODER.encode(content)
    except (TypeError, ValueError, RecursionError):  # lone surrogates, or keys that are not text
        raw = msgspec.json.encode({str(name): _to_plain(item) for name, item in content.items()})
    if len(raw) > _MAX_TEXT:
        plain = msgspec.json.decode(raw)
        own = {name: plain.pop(name) for name in ("stack",) if name in plain}
        raw = msgspec.json.encode({**_cut_within(plain), **own})
    text = raw.decode()
    return text if text.isascii() and "\x7f" not in text else text.translate(_UNSAFE)


def _to_plain(value: Any) -> object:  # noqa: ANN401  # callers may log any value
    if isinstance(value, bool | int | float | None):
        return value
    return str(value).encode("utf-8", "backslashreplace").decode()


def _cut_within(value: Any) -> Any:  # noqa: ANN401  # JSON
    """Cut long texts and lists: responses of the API server and findings quote what users write."""
    match value:
        case str():
            return _cut(value)
        case dict():
            return {_cut(name): _cut_within(item) for name, item in value.items()}
        case list():
            return [_cut_within(item) for item in value[:_MAX_ITEMS]]
        case _:
            return value


def _cut(text: str, max_length: int = _MAX_TEXT) -> str:
    return text if len(text) <= max_length else f"{text[:max_length]}..."
