"""Serves the API: finds the call of a request, checks who sends it, and limits what all send.

Off loopback it uses TLS, and every request has a caller. An unhandled exception fails one request
only. The calls of the scheduler have the same event loop: of the API, it begins one request in a
turn, so what nobody's rate counts, such as a refusal, delays them no more if there are many.
"""

import asyncio
import contextlib
import ipaddress
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec
from aiohttp import web

from allocator.api.callers import CallerAccess
from allocator.api.calls import ApiCalls
from allocator.api.messages import (
    EXPLAIN,
    GET_NODE,
    GET_OPENAPI,
    HTTP_STATUS,
    LIST_ALLOCATIONS,
    LIST_QUOTAS,
    SIMULATE,
    ApiCall,
    ApiFailureError,
    FailureCode,
)
from allocator.api.openapi import render_openapi
from allocator.api.plan_messages import ADJUST, DEFRAG
from allocator.api.pool_status import LIST_POOLS
from allocator.api.reviews import Caller
from allocator.api.tenants import Places, Rate, SharedRates, too_many
from drawbridge.process import metrics
from drawbridge.process.addresses import Address
from drawbridge.process.fair_turns import FairTurns, TurnKey
from drawbridge.process.listener import ListenerLimits, TLSListener
from drawbridge.process.network_peers import find_peer
from drawbridge.process.request_bodies import (
    JSON,
    RejectedRequestError,
    RequestBodies,
    check_content,
)
from drawbridge.process.tls import CertificateSource

_LOG: Final = logging.getLogger("allocator.api")
MAX_BODY_BYTES: Final = 1 << 20
_MAX_ARRIVING_BYTES: Final = 2 << 20
_BYTES_OF_TENANT: Final = 2 << 20
_BYTES_OF_SHARE: Final = 8 << 20
_BODY_SECONDS: Final = 10.0
_IN_FLIGHT_OF_TENANT: Final = 8
_IN_FLIGHT_OF_SHARE: Final = 32
# More than there can be connections, and requests whose connection has ended.
_MAX_REQUESTS: Final = 1 << 16
_LISTENER_LIMITS: Final = ListenerLimits(connections=200)
_CLOSE_SECONDS: Final = 1.0
_MAX_PARAMETERS: Final = 16
# One search counts as several reads. A page of pools and a large body hold the event loop as long
# as several: to decode 1 MiB takes up to 50 ms.
_REQUESTS_OF_TENANT: Final = Rate(20, 100)
_REQUESTS_OF_SHARE: Final = Rate(100, 200)
_SEARCH_COST: Final = 5
_POOLS_COST: Final = 5
_BYTES_OF_READ: Final = 64 << 10
_OPENAPI: Final = render_openapi().encode()
_UNKNOWN: Final = "unknown"
_CODE_OF_STATUS: Final = {status: code for code, status in HTTP_STATUS.items()}


class ApiRequest(NamedTuple):
    """A request whose sender is known: the name in its path, its query and its body."""

    caller: Caller
    name: str
    query: Mapping[str, str]
    body: bytes


Handler = Callable[[ApiRequest], Awaitable[msgspec.Struct | msgspec.Raw]]


class _Route(NamedTuple):
    call: ApiCall
    handler: Handler
    cost: float = 1


class ApiHandler:
    """Handles every request."""

    def __init__(
        self, calls: ApiCalls, access: CallerAccess, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._access = access
        self._now = now
        # It does not count bodies that have arrived.
        self._bodies = RequestBodies(MAX_BODY_BYTES, 4 * _MAX_ARRIVING_BYTES, _BODY_SECONDS)
        self._in_flight = Places(_IN_FLIGHT_OF_TENANT, _IN_FLIGHT_OF_SHARE, "concurrent requests")
        self._bytes = Places(_BYTES_OF_TENANT, _BYTES_OF_SHARE, "bytes in concurrent requests")
        self._turns = FairTurns(_MAX_REQUESTS)
        self._rates = SharedRates(_REQUESTS_OF_TENANT, _REQUESTS_OF_SHARE)
        self._routes = (
            _Route(LIST_ALLOCATIONS, lambda r: calls.list_allocations(r.caller, r.query)),
            _Route(LIST_QUOTAS, lambda r: calls.list_quotas(r.caller, r.query)),
            _Route(LIST_POOLS, lambda r: calls.list_pools(r.caller, r.query), _POOLS_COST),
            _Route(GET_NODE, lambda r: calls.get_node(r.caller, r.name)),
            _Route(EXPLAIN, lambda r: calls.explain(r.caller, r.body), _SEARCH_COST),
            _Route(GET_OPENAPI, _get_openapi),
            _Route(SIMULATE, lambda r: calls.simulate(r.caller, r.body), _SEARCH_COST),
            _Route(DEFRAG, lambda r: calls.defrag(r.caller, r.body), _SEARCH_COST),
            _Route(ADJUST, lambda r: calls.adjust(r.caller, r.body), _SEARCH_COST),
        )

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Answer one request."""
        path, _, query = request.raw_path.partition("?")
        routes = [(each, name) for each in self._routes if (name := _match(each.call, path)) != ""]
        label = routes[0][0].call.label if routes else _UNKNOWN
        started = time.perf_counter()
        async with self._turns.take(TurnKey(find_peer(request.remote or ""))):
            await asyncio.sleep(0)
        try:
            response = await self._respond(request, routes, query)
        except ConnectionError:  # the client is gone
            raise
        except Exception as error:  # noqa: BLE001  # any exception fails one request only
            response = _failed(error, label)
        metrics.API_REQUESTS.add(label, f"{response.status}")
        metrics.API_LATENCY.add(label, time.perf_counter() - started)
        return response

    async def _respond(
        self, request: web.BaseRequest, routes: "list[tuple[_Route, str | None]]", query: str
    ) -> web.Response:
        caller = await self._access.authenticate(request)
        route, name = _choose(routes, request.method)
        self._count(caller, route.cost)
        arguments = _parse_query(query, route.call)
        with self._in_flight.hold(caller.tenant):
            body = await self._read_body(request, route.call)
            self._count(caller, len(body) / _BYTES_OF_READ)
            with self._bytes.hold(caller.tenant, len(body)):
                reply = await route.handler(ApiRequest(caller, name or "", arguments, body))
        return _response(200, msgspec.json.encode(reply))

    def _count(self, caller: Caller, cost: float) -> None:
        """Raise ApiFailureError if a tenant, or its share, sends too many requests."""
        tenant, now = caller.tenant, self._now()
        if caller.trusted:  # all processes of this machine
            seconds = self._rates.take_of_share(tenant.share, now, cost)
        else:
            seconds = self._rates.take(tenant.share, tenant, now, cost)
        if seconds:
            raise too_many("too many requests", seconds)

    async def _read_body(self, request: web.BaseRequest, call: ApiCall) -> bytes:
        if call.request is None:
            return b""
        check_content(request)
        return await self._bodies.read(request, _BODY_SECONDS)


async def _get_openapi(_: ApiRequest) -> msgspec.Raw:
    return msgspec.Raw(_OPENAPI)


def _match(call: ApiCall, path: str) -> str | None:
    """Return the name in a path, None for a call without one, or "" if it is another path."""
    before, has_name, after = call.path.partition("{name}")
    if not has_name:
        return None if path == before else ""
    name = path[len(before) :] if path.startswith(before) and not after else ""
    return "" if "/" in name else unquote(name, errors="replace")


def _choose(routes: "list[tuple[_Route, str | None]]", method: str) -> "tuple[_Route, str | None]":
    if not routes:
        raise ApiFailureError(FailureCode.NOT_FOUND, "the API has no such path")
    for route in routes:
        if route[0].call.method == method:
            return route
    allowed = routes[0][0].call.method
    raise RejectedRequestError(405, f"the method must be {allowed}", Allow=allowed)


def _parse_query(query: str, call: ApiCall) -> Mapping[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        text = "the query has too many parameters"
        raise ApiFailureError(FailureCode.BAD_REQUEST, text) from None
    for number, (name, _) in enumerate(pairs):
        if name not in call.query:
            text = f"the parameter is not known; the known ones are: {', '.join(call.query)}"
            parameters = text if call.query else "the call has no parameters"
            raise ApiFailureError(FailureCode.BAD_REQUEST, parameters, name[:64])
        if name in (other for other, _ in pairs[:number]):
            raise ApiFailureError(FailureCode.BAD_REQUEST, "the parameter is repeated", name)
    return dict(pairs)


# --- responses ---


def _failed(error: Exception, label: str) -> web.Response:
    if isinstance(error, RejectedRequestError):
        return _rejected(error)
    if not isinstance(error, ApiFailureError):
        fields = {"call": label}
        _LOG.error("unhandled exception in a call", exc_info=error, extra={"fields": fields})
        text = "unhandled exception; the log of the allocator has more"
        error = ApiFailureError(FailureCode.BUG, text)
    status = HTTP_STATUS[error.failure.code]
    response = _response(status, msgspec.json.encode(error.failure))
    if error.retry_after:
        response.headers["Retry-After"] = f"{max(1, math.ceil(error.retry_after))}"
    if status == HTTP_STATUS[FailureCode.UNAUTHORIZED]:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _rejected(error: RejectedRequestError) -> web.Response:
    code = _CODE_OF_STATUS[error.status]
    body = msgspec.json.encode(ApiFailureError(code, f"{error}").failure)
    headers = dict(error.headers)
    closes = headers.pop("Connection", "") == "close"
    response = _response(error.status, body)
    response.headers.update(headers)
    if closes:
        response.force_close()
    return response


def _response(status: int, body: bytes) -> web.Response:
    # What a caller may see must not stay in a cache that others use.
    headers = {"Content-Type": JSON, "Cache-Control": "no-store"}
    return web.Response(body=body, status=status, headers=headers)


# --- the listener ---


def is_loopback(at: Address) -> bool:
    """Whether only this machine, or this pod, can connect to an address.

    A name, such as localhost, can have any address.
    """
    try:
        return ipaddress.ip_address(at.host).is_loopback
    except ValueError:
        return False


@contextlib.asynccontextmanager
async def serve_api(
    at: Address, certificate: CertificateSource | None, handler: ApiHandler
) -> AsyncIterator[TLSListener]:
    """Serve until the context exits; raises OSError."""
    listener = TLSListener(at, certificate, handler.handle, name="api", limits=_LISTENER_LIMITS)
    await listener.open()
    try:
        yield listener
    finally:
        await listener.close(_CLOSE_SECONDS)
