"""Reads durations such as 12h, and writes ages as kubectl does."""

import argparse
from datetime import UTC, datetime
from typing import Final

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_MAX_DURATION: Final = 3_650 * 86_400.0


def parse_duration(text: str) -> float:
    """Read seconds, or a number with the unit s, m, h or d."""
    number, unit = (text[:-1], text[-1:]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        seconds = -1
    if not 1 <= seconds <= _MAX_DURATION:
        raise argparse.ArgumentTypeError(f"{text}: must be between 1s and 3650d, such as 12h")
    return seconds


def parse_time(text: object) -> datetime | None:
    """Read a time of the API server; None for anything else."""
    try:
        time = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return None if time is None else time.replace(tzinfo=time.tzinfo or UTC)


def format_age(text: object, now: datetime) -> str:
    """Write how long ago a time of the API server was; empty if it is unknown."""
    time = parse_time(text)
    if time is None:
        return ""
    seconds = max(0.0, (now - time).total_seconds())
    unit = next((each for each in "dhm" if seconds >= 2 * _UNITS[each]), "s")
    return f"{int(seconds // _UNITS[unit])}{unit}"
