"""Records whether the API server responds, so that an outage is logged once and then counted.

All watches, reconcilers and the election of a process share one session. During an outage each of
them fails every few seconds, and a line for each failure hides all other lines.
"""

import logging
import os
import ssl
import time
from collections.abc import Callable
from typing import Final

import aiohttp

from drawbridge.cluster.failure_log import FailureLog

_LOG = logging.getLogger("drawbridge.cluster.session")
_WORDS: Final = (
    (aiohttp.ConnectionTimeoutError, "the connection was not accepted in time"),
    (aiohttp.ServerTimeoutError, "no data arrived in time"),
    (TimeoutError, "no data arrived in time"),
    (aiohttp.ServerDisconnectedError, "the server closed the connection without a response"),
    (aiohttp.ClientPayloadError, "the connection ended within the response"),
)


class Reachability:
    """Counts the failures of one session, and logs the begin and the end of an outage."""

    failures = 0

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._responded = float("-inf")
        self._log = FailureLog(_LOG, "the API server responds again after %.1f s", now)
        self._failing = False

    @property
    def reachable(self) -> bool:
        """Whether the API server responded to the last request that ended."""
        return not self._failing

    def record_response(self) -> None:
        """Record that the API server responded, with any status."""
        self._failing = False
        self._responded = self._now()
        self._log.succeed()

    def record_failure(self, started: float, reason: str) -> bool:
        """Record a request without a response, sent at `started`; False if others got theirs."""
        self.failures += 1
        if self._responded > started:
            return False
        self._failing = True
        text = "the API server is unreachable: %s; requests are retried and counted"
        self._log.note("outage", logging.WARNING, text, reason)
        return True

    def now(self) -> float:
        """Return the time to pass to `record_failure`."""
        return self._now()


def describe_failure(error: Exception) -> str:
    """Say why a connection failed, without the names of Python objects."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
        return f"the certificate of {error.host}:{error.port} is not trusted: {reason}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"cannot resolve {error.host}: {_describe_os_error(error.os_error)}"
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = _describe_os_error(error.os_error)
        return f"cannot connect to {error.host}:{error.port}: {reason}"
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return words
    if isinstance(error, OSError):
        return _describe_os_error(error)
    return str(error) or type(error).__name__


def _describe_os_error(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    # The text of a refused connection is a Python tuple. The codes of resolvers are negative.
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return (error.strerror or str(error)).lower()
