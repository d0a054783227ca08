"""Finds out who sends a request, from its client certificate or its bearer token.

Token buckets limit how often a tenant or an address may ask the API server.
"""

import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from aiohttp import web

from allocator.api.messages import ApiFailureError, FailureCode
from allocator.api.reviews import Action, Caller, Reviews
from allocator.api.tenants import KeyedRates, Rate, Share, SharedRates, Tenant, too_many
from drawbridge.process.network_peers import find_peer

# Each unknown token, and each unknown right, is a request to the API server.
_TOKENS_OF_ADDRESS: Final = Rate(5, 20)
_TOKENS: Final = Rate(50, 100)
_REVIEWS_OF_TENANT: Final = Rate(20, 100)
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
        self._unknown_tokens = SharedRates(_TOKENS_OF_ADDRESS, _TOKENS)
        self._reviews_of_tenant = KeyedRates(_REVIEWS_OF_TENANT)

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
        accepted = await self._reviews.find_caller(
            token, lambda tenant: self._count_token(tenant, address)
        )
        if accepted is None:
            text = "the API server does not accept the bearer token"
            raise ApiFailureError(FailureCode.UNAUTHORIZED, text)
        return accepted

    async def is_allowed(self, caller: Caller, action: Action) -> bool:
        """Whether a caller may do something; raises ApiFailureError."""
        return await self._reviews.is_allowed(
            caller, action, lambda: self._count_review(caller.tenant)
        )

    async def require(self, caller: Caller, action: Action) -> None:
        """Raise ApiFailureError unless a caller may do something."""
        if not await self.is_allowed(caller, action):
            text = f"{caller.name} may not {action}, which this call requires"
            raise ApiFailureError(FailureCode.FORBIDDEN, text)

    def _count_token(self, tenant: Tenant | None, address: str) -> None:
        """Count a review of a token, which is that of a tenant if it was accepted before.

        Strangers who guess tokens therefore take nothing from those who have one.
        """
        if tenant is not None:
            self._count_review(tenant)
        elif seconds := self._unknown_tokens.take(Share.USERS, address, self._now()):
            raise too_many("too many unknown tokens", seconds)

    def _count_review(self, tenant: Tenant) -> None:
        if seconds := self._reviews_of_tenant.take(tenant, self._now()):
            raise too_many("too many access reviews", seconds)


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
    return find_peer(f"{peer[0]}") if isinstance(peer, tuple) else ""
