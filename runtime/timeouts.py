"""How long an answer may take: `?timeout=5s` of the API server, with a margin for the way back.

Knows nothing of requests.
"""

import re
from typing import Final
from urllib.parse import parse_qsl

DEFAULT: Final = 5.0
LONGEST: Final = 30.0  # what a webhook configuration can say at most
_SHORTEST: Final = 0.05
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
_LONGEST_TEXT: Final = 64


def duration(text: str) -> float | None:
    """Read a duration as Go writes it, in seconds; None for anything else."""
    if not text or len(text) > _LONGEST_TEXT:
        return None
    seconds, end = 0.0, 0
    while end < len(text):
        part = _PART.match(text, end)
        if part is None:
            return None
        seconds += float(part[1]) * _UNITS[part[2]]
        end = part.end()
    return seconds


def allowed(query: str) -> float:
    """How long the caller waits, as its query says; the default where it says nothing sensible."""
    said = next((value for name, value in parse_qsl(query) if name == "timeout"), "")
    seconds = duration(said)
    if seconds is None or seconds <= 0:
        return DEFAULT
    return min(seconds, LONGEST)


def deadline(seconds: float) -> float:
    """How long we may take when the caller waits so long: an answer has to arrive as well."""
    return max(_SHORTEST, seconds - min(_MARGIN, seconds * _SHARE))
