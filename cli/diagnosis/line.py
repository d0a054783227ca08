"""A line of `drawbridge doctor`: the result of one check, with the remedy of what is wrong."""

import enum
from typing import Final

import msgspec

from drawbridge.dra.counted import count_noun
from drawbridge.finding import Finding, Severity

_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


class Status(enum.StrEnum):
    """Whether a check found nothing, something to look at, or something that does not work."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


_STATUS: Final = {
    Severity.INFO: Status.OK,
    Severity.WARNING: Status.WARNING,
    Severity.ERROR: Status.ERROR,
}


class DoctorLine(msgspec.Struct, frozen=True):
    """The result of a check. Only a problem has a code and a remedy."""

    check: str
    status: Status
    message: str
    remedy: str = ""
    code: str = ""
    object: str = ""


def passed(check: str, message: str) -> DoctorLine:
    """Return the line of a check that found nothing wrong."""
    return DoctorLine(check, Status.OK, message)


def report(check: str, finding: Finding, remedy: str) -> DoctorLine:
    """Return the line of a finding, with the remedy for the caller."""
    status = _STATUS[finding.severity]
    return DoctorLine(check, status, finding.message, remedy, finding.code, finding.object)


def describe_seconds(seconds: float) -> str:
    """Return a duration in its largest whole unit: `3 hours`."""
    whole = max(0, int(seconds))
    for size, unit in _UNITS:
        if whole >= size:
            return count_noun(whole // size, unit)
    return "0 seconds"
