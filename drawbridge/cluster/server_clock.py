"""The time of the API server, which is the clock that decides whether a certificate is valid.

A process whose own clock is wrong would issue certificates that no API server accepts. The time
comes from the `Date` header of responses, and from the time that has passed since. One API server
of several, or a proxy, can have a wrong clock, so a large step needs a second witness: the own
clock, or the same time in all responses for a minute.
"""

import logging
import math
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

from drawbridge.cluster.failure_log import FailureLog

_LOG = logging.getLogger("drawbridge.cluster.server_clock")
# The header has whole seconds, and a response takes a moment.
TOLERANCE_SECONDS: Final = 2.0
# Certificates are used for hours, so that a larger difference is worth a line in the log.
_WARN_SECONDS: Final = 60.0
# Certificates and their renewal leave more room than this.
LARGE_STEP_SECONDS: Final = 3600.0
CONFIRMATION_SECONDS: Final = 60.0


def boot_time() -> float:
    """Return monotonic time that includes system suspend, when another process can take over."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class _Claim(NamedTuple):
    """A time that nothing else supports yet, and the elapsed time at its first response."""

    time: float
    since: float


class _Date(NamedTuple):
    """A `Date` header and its time."""

    text: str | None
    time: float


class ServerClock:
    """Tells the Unix time of the API server; the own wall clock until the first response."""

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = boot_time,
    ) -> None:
        self._elapsed = elapsed
        self._wall = wall
        self._time, self._at = wall(), elapsed()
        self._is_known = False
        self._claim: _Claim | None = None
        self._last: _Date | None = None  # the header changes once a second
        end = "the clocks of this machine and of the API server agree again after %.0f s"
        self._log = FailureLog(_LOG, end, elapsed)

    def now(self) -> float:
        """Return the time now."""
        return self._time + self._elapsed() - self._at

    def is_certain(self) -> bool:
        """Return whether nothing contradicts the time, so that a decision may depend on it."""
        return self._claim is None

    def observe(self, date: str | None) -> None:
        """Follow the `Date` header of a response; an invalid header is ignored."""
        if self._last is None or self._last.text != date:
            try:
                self._last = _Date(date, parsedate_to_datetime(date or "").timestamp())
            except (ValueError, OverflowError, TypeError):
                return
        told = self._last.time
        is_supported = _is_near(told, self._wall()) or (
            self.is_certain() and _is_near(told, self.now())
        )
        if is_supported or self._is_confirmed(told):
            self._claim = None
        elif self._is_known:
            return
        self._is_known = True
        if abs(told - self.now()) > TOLERANCE_SECONDS:
            self._time, self._at = told, self._elapsed()
        self._compare(told)

    def _is_confirmed(self, told: float) -> bool:
        """Return whether all responses of the last minute have told this time."""
        elapsed, claim = self._elapsed(), self._claim
        if claim is None or not _is_near(told, claim.time + elapsed - claim.since):
            self._claim = claim = _Claim(told, elapsed)
        return elapsed - claim.since >= CONFIRMATION_SECONDS

    def _compare(self, told: float) -> None:
        """Warn of a difference; of several API servers, each can have its own."""
        difference = self._wall() - told
        if abs(difference) <= _WARN_SECONDS:
            self._log.succeed()
            return
        text = (
            "the clock of this machine differs from that of the API server by %.0f s; "
            "certificates follow the API server"
        )
        # The sign and the order of magnitude: a person does not care about some seconds more.
        kind = difference > 0, math.frexp(difference)[1]
        self._log.note(kind, logging.WARNING, text, difference)


def _is_near(told: float, other: float) -> bool:
    return abs(told - other) <= LARGE_STEP_SECONDS
