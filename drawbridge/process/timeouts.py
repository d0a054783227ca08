"""Parse the timeout of the API server, and compute a deadline with a margin for the response."""

import re
from typing import Final
from urllib.parse import parse_qsl

DEFAULT: Final = 5.0
MAX_TIMEOUT: Final = 30.0  # the maximum in a webhook configuration
_MIN_DEADLINE: Final = 0.05
_MARGIN, _SHARE = 0.5, 0.1
_UNITS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "\u00b5s": 1e-6,
    "\u03bcs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_PART: Final = re.compile(rf"([0-9]{{1,9}}(?:\.[0-9]{{0,9}})?|\.[0-9]{{1,9}})({'|'.join(_UNITS)})")
_MAX_TEXT: Final = 64


def parse_duration(text: str) -> float | None:
    """Parse a duration in the format of Go. Return seconds, or None if it is invalid."""
    if not text or len(text) > _MAX_TEXT:
        return None
    seconds, end = 0.0, 0
    while end < len(text):
        part = _PART.match(text, end)
        if part is None:
            return None
        seconds += float(part[1]) * _UNITS[part[2]]
        end = part.end()
    return seconds


def read_timeout(query: str) -> float:
    """Return the timeout in seconds from a query string, or the default if it is not valid."""
    text = next((value for name, value in parse_qsl(query) if name == "timeout"), "")
    seconds = parse_duration(text)
    if seconds is None or seconds <= 0:
        return DEFAULT
    return min(seconds, MAX_TIMEOUT)


def compute_deadline(seconds: float) -> float:
    """Return the time to compose a response, so that it arrives within the caller's timeout."""
    return max(_MIN_DEADLINE, seconds - min(_MARGIN, seconds * _SHARE))
