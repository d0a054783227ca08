"""Logs: one JSON object a line on the error stream, for machines first and safe in a terminal.

`ts`, `level`, `logger`, `msg`, then whatever fields the caller gives. Only a bug of ours carries a
stack. Knows nothing of what is logged.
"""

import asyncio
import contextlib
import functools
import logging
import os
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec
from aiohttp.http_exceptions import HttpProcessingError

LEVELS: Final = ("debug", "info", "warning", "error")
# JSON escapes the C0 controls by itself. The rest that moves a cursor or turns text around in a
# terminal can come with any name a tenant writes.
_UNSAFE: Final = {
    code: f"\\u{code:04x}"
    for code in (*range(0x7F, 0xA0), *range(0x200B, 0x2010), *range(0x2028, 0x202F), 0xFEFF)
} | {code: f"\\u{code:04x}" for code in range(0x2066, 0x206A)}
_NAMES: Final = {getattr(logging, name.upper()): name for name in LEVELS}
_ENCODER: Final = msgspec.json.Encoder(enc_hook=str)
_LONGEST: Final = 4096
_STACK: Final = 16384
TOGETHER: Final = 0.1  # seconds that a line may wait for others
_LINES: Final = 256


_Waiting = tuple[float, int, str, str, Mapping[str, object]]


class Lines(logging.Formatter):
    """Turns any record into one line of JSON, whatever is in it."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the line; a value that JSON does not have is shown as text."""
        fields: Mapping[str, object] = getattr(record, "fields", {})
        own = _content(record.created, record.levelno, record.name, record.getMessage())
        content = {**own, **fields, **own}  # our four first, and by no field put out
        if record.exc_info and record.exc_info[0]:
            content["error"] = _cut(f"{record.exc_info[0].__name__}: {record.exc_info[1]}")
            content["stack"] = _cut(self.formatException(record.exc_info), _STACK)
        return _line(content)


class _Written(logging.StreamHandler[TextIO]):
    """Writes lines, also without a record: one is made for every translated pod.

    Those lines wait a moment for each other: to put them into words and to write them one by one,
    between two requests, costs three times as much. All else is written at once, after what waits.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._waiting: list[_Waiting] = []
        self._writes: asyncio.AbstractEventLoop | None = None  # the loop that will write them

    def write(
        self, level: int, name: str, msg: str, fields: Mapping[str, object], *, soon: bool
    ) -> None:
        self._waiting.append((time.time(), level, name, msg, fields))
        if not soon or len(self._waiting) > _LINES or not self._will_write():
            self.flush()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record after all that was said before it."""
        self.flush()
        super().emit(record)

    def flush(self) -> None:
        """Write what waits."""
        waiting, self._waiting, self._writes = self._waiting, [], None
        lines = [_worded(*said) for said in waiting]
        # Whoever read the log may be gone; that is no reason to fail a request.
        with contextlib.suppress(OSError, ValueError):
            if lines:
                self.stream.write(self.terminator.join([*lines, ""]))
            super().flush()

    def _will_write(self) -> bool:
        running = _running_loop()
        if running is not None and self._writes is not running:
            running.call_later(TOGETHER, self.flush)
            self._writes = running
        return running is not None


class _Quiet(logging.Filter):
    """Tells of broken requests without a stack: they are somebody else's mistake, not a bug."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record; take the stack off those about the outside."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError | OSError):
            record.fields = {"error": _cut(f"{type(error).__name__}: {error}", 300)}
            record.exc_info = None
            record.levelno, record.levelname = logging.INFO, "INFO"
        return True


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Send everything that is logged in this process to `stream`, the error stream by default."""
    # The error stream may have been closed before we started; then nobody is told.
    nowhere = Path(os.devnull)
    handler = _Written(stream or sys.stderr or nowhere.open("w", encoding="utf-8"))
    handler.setFormatter(Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # The kubelet's own probes would fill the log otherwise.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def say(log: logging.Logger, level: int, msg: str, **fields: object) -> None:
    """Log a line with fields of its own."""
    _say(log, level, msg, fields, soon=False)


def say_soon(log: logging.Logger, level: int, msg: str, **fields: object) -> None:
    """Log a line of which there are thousands: within a tenth of a second, with the others."""
    _say(log, level, msg, fields, soon=level <= logging.INFO)


def _say(
    log: logging.Logger, level: int, msg: str, fields: Mapping[str, object], *, soon: bool
) -> None:
    if not log.isEnabledFor(level):
        return
    # Who else listens gets a record; where nobody does, that would be most of the line's cost.
    only = logging.root.handlers[0] if len(logging.root.handlers) == 1 else None
    if isinstance(only, _Written):
        only.write(level, log.name, msg, fields, soon=soon)
    else:
        log.log(level, "%s", msg, extra={"fields": fields})


def of_connections() -> logging.Logger:
    """The logger to hand to an HTTP server for what goes wrong before a request is one."""
    log = logging.getLogger("serve.connections")
    if not any(isinstance(each, _Quiet) for each in log.filters):
        log.addFilter(_Quiet())
    return log


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:  # before the loop, after it, or in a thread beside it
        return None


def _worded(created: float, level: int, name: str, msg: str, fields: Mapping[str, object]) -> str:
    own = _content(created, level, name, msg)
    return _line({**own, **fields, **own})


def _content(created: float, level: int, name: str, msg: str) -> dict[str, Any]:
    shown = _NAMES.get(level) or logging.getLevelName(level).lower()
    return {"ts": _instant(created), "level": shown, "logger": name, "msg": _cut(msg)}


def _instant(seconds: float) -> str:
    whole = int(seconds)
    return f"{_second(whole)}.{int((seconds - whole) * 1000):03}Z"


@functools.lru_cache(maxsize=2)
def _second(whole: int) -> str:
    # Thousands of lines are written in one second, and to format it costs a third of a line.
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _line(content: Mapping[str, object]) -> str:
    try:
        raw = _ENCODER.encode(content)
    except (TypeError, ValueError, RecursionError):  # lone surrogates, keys that are no text
        raw = msgspec.json.encode({str(name): _plain(item) for name, item in content.items()})
    text = raw.decode()
    return text if text.isascii() and "\x7f" not in text else text.translate(_UNSAFE)


def _plain(value: Any) -> object:  # noqa: ANN401  # anything at all may be logged
    if isinstance(value, bool | int | float | None):
        return value
    return str(value).encode("utf-8", "backslashreplace").decode()


def _cut(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
