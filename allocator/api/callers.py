"""Finds out who sends a request, from its client certificate or its bearer token.

Token buckets limit how often a user or an address may ask the API server.
"""

import re
import ssl
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from aiohttp import web

from allocator.api.messages import ApiFailureError, FailureCode
from allocator.api.reviews import Action, Caller, Reviews
from drawbridge.bounded_cache import BoundedCache

MAX_KEYS: Final = 4096


class Rate(NamedTuple):
    """How much is allowed in a second, and how much at once."""

    per_second: float
    burst: float


class KeyedRates:
    """What keys, such as users and addresses, have left of a rate. Reads no clock."""

    def __init__(self, rate: Rate, max_keys: int = MAX_KEYS) -> None:
        self._rate = rate
        # What is left, at which time.
        self._left: BoundedCache[Hashable, tuple[float, float]] = BoundedCache(max_keys)

    def take(self, key: Hashable, now: float, cost: float = 1) -> float:
        """Use some of what a key has left; return the seconds to wait, and use nothing, or 0."""
        per_second, burst = self._rate
        left, at = self._left.get(key) or (burst, now)
        left = min(burst, left + (now - at) * per_second)
        is_allowed = left >= min(cost, burst)
        self._left.put(key, (left - cost if is_allowed else left, now))
        return 0.0 if is_allowed else (min(cost, burst) - left) / per_second

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._left)


# Each unknown token, and each unknown right, is a request to the API server.
_TOKENS_PER_ADDRESS: Final = Rate(5, 20)
_TOKENS: Final = Rate(50, 100)
_RIGHTS_PER_CALLER: Final = Rate(20, 100)
_LOCAL: Final = Caller("system:local", trusted=True)
# Every user that the API server knows has this group.
_AUTHENTICATED: Final = "system:authenticated"
_BEARER: Final = "bearer "
_LOCAL_HOST: Final = re.compile(r"(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?")


class CallerAccess:
    """Who calls, and what a caller may do. With `is_local`, callers are on this machine."""

    def __init__(
        self,
        reviews: Reviews,
        *,
        is_local: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reviews = reviews
        self._is_local = is_local
        self._now = now
        self._tokens_of_address = KeyedRates(_TOKENS_PER_ADDRESS)
        self._tokens = KeyedRates(_TOKENS, max_keys=1)
        self._rights = KeyedRates(_RIGHTS_PER_CALLER)

    async def authenticate(self, request: web.BaseRequest) -> Caller:
        """Return who sends a request; raises ApiFailureError."""
        if self._is_local:
            _check_local_host(request)
            return _LOCAL
        if (caller := _find_certified(request)) is not None:
            return caller
        header = request.headers.get("Authorization", "")
        if header[: len(_BEARER)].lower() != _BEARER:
            text = "the request has neither a bearer token nor a client certificate"
            raise ApiFailureError(FailureCode.UNAUTHORIZED, text)
        token = header[len(_BEARER) :].strip()
        address = _find_address(request)
        accepted = await self._reviews.find_caller(token, lambda: self._count_token(address))
        if accepted is None:
            text = "the API server does not accept the bearer token"
            raise ApiFailureError(FailureCode.UNAUTHORIZED, text)
        return accepted

    async def is_allowed(self, caller: Caller, action: Action) -> bool:
        """Whether a caller may do something; raises ApiFailureError."""
        return await self._reviews.is_allowed(caller, action, lambda: self._count_right(caller))

    async def require(self, caller: Caller, action: Action) -> None:
        """Raise ApiFailureError unless a caller may do something."""
        if not await self.is_allowed(caller, action):
            text = f"{caller.name} may not {action}, which this call requires"
            raise ApiFailureError(FailureCode.FORBIDDEN, text)

    def _count_token(self, address: str) -> None:
        now = self._now()
        seconds = self._tokens_of_address.take(address, now) or self._tokens.take("", now)
        if seconds:
            text = "too many unknown tokens"
            raise ApiFailureError(FailureCode.TOO_MANY_REQUESTS, text, retry_after=seconds)

    def _count_right(self, caller: Caller) -> None:
        if seconds := self._rights.take(caller.name, self._now()):
            text = "too many access reviews"
            raise ApiFailureError(FailureCode.TOO_MANY_REQUESTS, text, retry_after=seconds)


def _check_local_host(request: web.BaseRequest) -> None:
    """Raise ApiFailureError for a web page whose name leads to this machine by DNS rebinding."""
    if not _LOCAL_HOST.fullmatch(request.headers.get("Host", "")):
        text = "on a loopback address, the header Host must be localhost or a loopback address"
        raise ApiFailureError(FailureCode.FORBIDDEN, text)


def _find_certified(request: web.BaseRequest) -> Caller | None:
    """Return the user of a client certificate, which TLS has verified."""
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    # TLS looks at the time once, and a connection has no end while requests arrive.
    if not certificate or is_expired(certificate, time.time()):
        return None
    return read_subject(certificate)


def is_expired(certificate: Mapping[str, Any], now: float) -> bool:
    """Return whether a certificate is not valid any more."""
    return ssl.cert_time_to_seconds(certificate["notAfter"]) <= now


def read_subject(certificate: Mapping[str, Any]) -> Caller | None:
    """Return the user of a certificate as the API server reads it: common name, organizations."""
    fields = [pair for group in certificate.get("subject", ()) for pair in group]
    names = list(_values(fields, "commonName"))
    if not names or not names[-1]:
        return None
    groups = (*dict.fromkeys((*_values(fields, "organizationName"), _AUTHENTICATED)),)
    return Caller(names[-1], groups=groups)


def _values(fields: list[tuple[str, str]], wanted: str) -> Iterator[str]:
    return (value for name, value in fields if name == wanted)


def _find_address(request: web.BaseRequest) -> str:
    transport = request.transport
    peer = transport.get_extra_info("peername") if transport is not None else None
    return f"{peer[0]}" if isinstance(peer, tuple) else ""
