"""The time of the API server, which is the clock that decides whether a certificate is valid.

A process whose own clock is wrong would issue certificates that no API server accepts. The time
comes from the `Date` header of responses, and from the time that has passed since.
"""

import logging
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final

_LOG = logging.getLogger("cluster.server_clock")
# The header has whole seconds, and a response takes a moment.
TOLERANCE_SECONDS: Final = 2.0
# Certificates are used for hours, so that a larger difference is worth a line in the log.
_WARN_SECONDS: Final = 60.0


def boot_time() -> float:
    """Return monotonic time that includes system suspend, when another process can take over."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


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

    def now(self) -> float:
        """Return the time now."""
        return self._time + self._elapsed() - self._at

    def observe(self, date: str | None) -> None:
        """Follow the `Date` header of a response; a header that is no date is ignored."""
        try:
            told = parsedate_to_datetime(date or "").timestamp()
        except (ValueError, OverflowError, TypeError):
            return
        if abs(told - self.now()) <= TOLERANCE_SECONDS:
            return
        self._time, self._at = told, self._elapsed()
        difference = self._wall() - told
        if abs(difference) > _WARN_SECONDS:
            _LOG.warning(
                "the clock of this machine differs from that of the API server by %.0f s; "
                "certificates follow the API server",
                difference,
            )
