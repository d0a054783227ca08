"""Timestamps, durations and time zones, with the limits and text formats of Go.

A timestamp is a number of nanoseconds since 1970 and the offset that it was written with. A
duration is a number of nanoseconds that fits an int64.
"""

import math
import re
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.numbers import (
    INT_MAX,
    INT_MIN,
    divide_truncated,
    format_fixed,
    parse_digits,
    parse_int,
    wrap_int64,
)

SECOND: Final = 1_000_000_000
_MINUTE: Final = 60 * SECOND
_HOUR: Final = 60 * _MINUTE
_DAY_SECONDS: Final = 86400
# 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z
_EARLIEST: Final = -62135596800
_LATEST: Final = 253402300799

_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})"
    r"(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_UNITS: Final = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 1_000_000,
    "s": SECOND, "m": _MINUTE, "h": _HOUR,
}  # fmt: skip
_TERM: Final = re.compile(r"([0-9]*)(?:(\.)([0-9]*))?([^0-9.]+)")
_LONGEST_ZONE: Final = 100
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration."""

    nanos: int

    def __str__(self) -> str:
        return format_fixed(_seconds(self.nanos)) + "s"


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A point in time; two are equal if the instant is, whatever their offsets."""

    nanos: int
    offset: int = field(default=0, compare=False)

    def __str__(self) -> str:
        seconds, nanos = divmod(self.nanos, SECOND)
        days, rest = divmod(seconds + self.offset, _DAY_SECONDS)
        year, month, day = civil(days)
        fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
        clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
        return f"{year:04d}-{month:02d}-{day:02d}T{clock}{fraction}{_offset_text(self.offset)}"


# The zero value of `timestamp`: year 1, not 1970.
ZERO_TIME: Final = Timestamp(_EARLIEST * SECOND)


def civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a number of days since 1970-01-01, in any year."""
    # Eras of 400 years that begin in March, so that the leap day is the last day of its year.
    era, of_era = divmod(days + 719468, 146097)
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + era * 400 + (month <= 2), month, day


def days_before(year: int) -> int:
    """Return the number of days from 1970-01-01 to the first of January of a year."""
    past = year - 1
    return past * 365 + past // 4 - past // 100 + past // 400 - 719162


def is_day(year: int, month: int, day: int) -> bool:
    """Tell whether a date exists; the year 0 is valid."""
    try:
        datetime(year or 400, month, day, tzinfo=UTC)
    except ValueError:
        return False
    return True


def timestamp_of_seconds(seconds: int) -> Timestamp:
    """Return the timestamp of a number of seconds since 1970."""
    if not _EARLIEST <= seconds <= _LATEST:
        raise EvaluationError("overflow", "timestamp overflow")
    return Timestamp(seconds * SECOND)


def parse_timestamp(text: str) -> Timestamp:
    """Parse RFC 3339 as Go does: a one-digit hour or a comma in the seconds is valid."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise _unreadable("Timestamp")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    offset = 0
    if match[8]:
        hours, minutes = int(match[9]), int(match[10])
        if hours > 24 or minutes > 60:
            raise _unreadable("Timestamp")
        offset = (hours * 60 + minutes) * (-60 if match[8] == "-" else 60)
    # A year before the first uses the leap year rule of its place in the cycle of 400 years.
    try:
        moment = datetime(year or 400, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise _unreadable("Timestamp") from None
    of_year = (moment - datetime(year or 400, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    seconds = days_before(year) * _DAY_SECONDS + of_year - offset
    if not _EARLIEST <= seconds <= _LATEST:
        raise EvaluationError("overflow", "timestamp overflow")
    fraction = (match[7] or "")[:9].ljust(9, "0")
    return Timestamp(seconds * SECOND + int(fraction), offset)


def parse_duration(text: str) -> Duration:
    """Parse a Go duration: decimal numbers with units, such as `1h30m` or `-1.5s`."""
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return Duration(0)
    total = at = 0
    while at < len(rest):
        match = _TERM.match(rest, at)
        unit = _UNITS.get(match[4]) if match else None
        if match is None or unit is None or not (match[1] or match[3]):
            raise _unreadable("Duration")
        total += _term(match[1], match[3] or "", unit)
        if total > 1 << 63:
            raise _unreadable("Duration")
        at = match.end()
    if not rest or (total > INT_MAX and text[0] != "-"):
        raise _unreadable("Duration")
    return Duration(-total if text[0] == "-" else total)


def add(moment: Timestamp, nanos: int) -> Timestamp:
    """Return the timestamp the given number of nanoseconds later."""
    total = moment.nanos + nanos
    if not _EARLIEST <= total // SECOND <= _LATEST:
        raise EvaluationError("overflow", "timestamp overflow")
    return Timestamp(total, moment.offset)


def between(later: Timestamp, earlier: Timestamp) -> Duration:
    """Return the duration between two timestamps."""
    seconds, nanos = divmod(later.nanos - earlier.nanos, SECOND)
    # cel-go scales the difference of the seconds alone first, which may overflow.
    whole = later.nanos // SECOND - earlier.nanos // SECOND
    if not INT_MIN <= whole * SECOND <= INT_MAX:
        raise EvaluationError("overflow", "integer overflow")
    return duration_of(seconds * SECOND + nanos)


def duration_of(nanos: int) -> Duration:
    """Return a duration; raises an error if it does not fit an int64."""
    if not INT_MIN <= nanos <= INT_MAX:
        raise EvaluationError("overflow", "integer overflow")
    return Duration(nanos)


def zone(name: str) -> Callable[[int], int]:
    """Return a function from a second to the offset of a named zone or of `+05:30`."""
    if ":" in name:
        offset = _fixed_offset(name)
        return lambda _: offset
    if name in {"", "UTC", "Local"}:
        return lambda _: 0
    try:
        # A longer name has no file, and takes long to look for.
        return _offsets(zoneinfo.ZoneInfo(name[:_LONGEST_ZONE]))
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise EvaluationError("timezone", f"unknown time zone {name}") from None


def local(moment: Timestamp, offset: int) -> tuple[int, int]:
    """Return the days since 1970 and the second of the day at an offset."""
    return divmod(moment.nanos // SECOND + offset, _DAY_SECONDS)


def whole_units(nanos: int, unit: int) -> int:
    """Return a duration in whole units as Go does: as a double, truncated towards zero."""
    whole, rest = divide_truncated(nanos, unit)
    return int(whole + rest / unit)


def _offsets(zone: zoneinfo.ZoneInfo) -> Callable[[int], int]:
    def offset(seconds: int) -> int:
        # Python cannot shift the first and the last year; no zone changes its offset there.
        within = min(max(seconds, _EARLIEST + 366 * _DAY_SECONDS), _LATEST - 366 * _DAY_SECONDS)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=within)
        shift = moment.astimezone(zone).utcoffset() or timedelta()
        return shift // timedelta(seconds=1)

    return offset


def _fixed_offset(name: str) -> int:
    parts = name.split(":", 1)
    if not all(map(_WHOLE.fullmatch, parts)):
        raise EvaluationError("timezone", f"{name!r} is no offset from UTC; write +hh:mm")
    hours, minutes = (parse_int(part) for part in parts)
    if hours is None or minutes is None or INT_MIN in {hours, minutes}:
        raise EvaluationError("timezone", f"{name!r} is out of range")
    sign = -1 if name[0] == "-" else 1
    return divide_truncated(wrap_int64((hours * 60 + sign * minutes) * _MINUTE), SECOND)[0]


def _offset_text(offset: int) -> str:
    if not offset:
        return "Z"
    minutes = abs(offset) // 60
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def _seconds(nanos: int) -> float:
    whole, rest = divide_truncated(nanos, SECOND)
    return whole + rest / 1e9


def _term(whole: str, fraction: str, unit: int) -> int:
    count = parse_digits(whole)
    if count > 1 << 63:
        raise _unreadable("Duration")
    # Only the digits that fit an int64 count; the scale is a double, as in Go.
    digits = scale = 0
    for digit in fraction:
        if digits > INT_MAX // 10 or digits * 10 + int(digit) > 1 << 63:
            break
        digits, scale = digits * 10 + int(digit), scale + 1
    return count * unit + math.floor(digits * (unit / 10.0**scale))


def _unreadable(kind: str) -> EvaluationError:
    return EvaluationError(
        "conversion", f"type conversion error from 'string' to 'google.protobuf.{kind}'"
    )
