"""The accessors of timestamps, in any time zone, and of durations."""

from collections.abc import Callable
from typing import Final

from drawbridge.cel import times
from drawbridge.cel.declare import UNKNOWN, Function, Overload
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.numbers import divide_truncated
from drawbridge.cel.types import DURATION, INT, STRING, TIMESTAMP
from drawbridge.cel.values import CelValue, Duration, Timestamp

_Part = Callable[[Timestamp, int], int]


def _year(moment: Timestamp, offset: int) -> int:
    return times.civil(times.local(moment, offset)[0])[0]


def _month(moment: Timestamp, offset: int) -> int:
    return times.civil(times.local(moment, offset)[0])[1] - 1


def _date(moment: Timestamp, offset: int) -> int:
    return times.civil(times.local(moment, offset)[0])[2]


def _day_of_month(moment: Timestamp, offset: int) -> int:
    return _date(moment, offset) - 1


def _day_of_year(moment: Timestamp, offset: int) -> int:
    days = times.local(moment, offset)[0]
    return days - times.days_before(times.civil(days)[0])


def _day_of_week(moment: Timestamp, offset: int) -> int:
    # 1970-01-01 is a Thursday, and weeks begin on Sunday.
    return (times.local(moment, offset)[0] + 4) % 7


def _hours(moment: Timestamp, offset: int) -> int:
    return times.local(moment, offset)[1] // 3600


def _minutes(moment: Timestamp, offset: int) -> int:
    return times.local(moment, offset)[1] // 60 % 60


def _second(moment: Timestamp, offset: int) -> int:
    return times.local(moment, offset)[1] % 60


def _milliseconds(moment: Timestamp, _: int) -> int:
    return moment.nanos % times.SECOND // 1_000_000


def _whole_milliseconds(length: Duration) -> int:
    return divide_truncated(length.nanos, 1_000_000)[0]


def _units(seconds: int) -> Callable[[Duration], int]:
    return lambda length: times.whole_units(length.nanos, seconds * times.SECOND)


def _failing(kind: str, message: str) -> Callable[..., CelValue]:
    """Return a function that fails; an unknown zone is no error until it is used."""

    def fail(*_: CelValue) -> CelValue:
        raise EvaluationError(kind, message)

    return fail


def _overloads(id_: str, part: _Part, zoned: str) -> tuple[Overload, ...]:
    def in_zone(moment: Timestamp, name: str) -> int:
        return part(moment, times.zone(name)(moment.nanos // times.SECOND))

    def prepare(args: tuple[CelValue, ...]) -> Callable[..., CelValue] | None:
        name = args[1]
        if name is UNKNOWN or not isinstance(name, str):
            return None
        try:
            offset = times.zone(name)
        except EvaluationError as problem:
            return _failing(problem.kind, problem.message)
        return lambda moment, _: part(moment, offset(moment.nanos // times.SECOND))

    return (
        Overload(id_, (TIMESTAMP,), INT, lambda moment: part(moment, 0), member=True),
        Overload(zoned, (TIMESTAMP, STRING), INT, in_zone, member=True, prepare=prepare),
    )


_PARTS: Final = (
    ("getFullYear", "year", _year),
    ("getMonth", "month", _month),
    ("getDayOfYear", "day_of_year", _day_of_year),
    ("getDayOfMonth", "day_of_month", _day_of_month),
    ("getDate", "day_of_month_1_based", _date),
    ("getDayOfWeek", "day_of_week", _day_of_week),
    ("getHours", "hours", _hours),
    ("getMinutes", "minutes", _minutes),
    ("getSeconds", "seconds", _second),
    ("getMilliseconds", "milliseconds", _milliseconds),
)
_LENGTHS: Final[dict[str, Callable[[Duration], int]]] = {
    "hours": _units(3600),
    "minutes": _units(60),
    "seconds": _units(1),
    "milliseconds": _whole_milliseconds,
}


def _function(name: str, part: str, implementation: _Part) -> Function:
    # The only name that cel-go abbreviates.
    zoned = "timestamp_to_seconds_tz" if part == "seconds" else f"timestamp_to_{part}_with_tz"
    overloads = _overloads(f"timestamp_to_{part}", implementation, zoned)
    length = _LENGTHS.get(part)
    if length is not None:
        overloads += (Overload(f"duration_to_{part}", (DURATION,), INT, length, member=True),)
    return Function(name, overloads)


FUNCTIONS: Final = tuple(_function(*row) for row in _PARTS)
