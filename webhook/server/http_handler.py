"""The HTTP handler of the processes that review objects: validate requests, call the reviewer.

Checks method, path, content type, size, time and concurrency, cheapest first. An unhandled
exception fails one request only.
"""

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from aiohttp import web
from aiohttp.hdrs import CONTENT_TYPE

from drawbridge.process import metrics, review, timeouts
from drawbridge.process.http_server import JSONResponse
from drawbridge.process.known_heads import Responder, WholeResponse
from drawbridge.process.logs import log_event, log_event_buffered
from drawbridge.process.network_peers import PeerShares, find_peer
from drawbridge.process.request_bodies import (
    JSON,
    RejectedRequestError,
    RequestBodies,
    check_content,
)
from webhook.admission.replies import PendingReply, Reply, reply_error

_LOG: Final = logging.getLogger("serve.admission")
_UNKNOWN: Final = "unknown"
_MAX_ROUTES: Final = 256  # cached paths with their query; the API server sends two
MIB: Final = 1 << 20
# Decisions about pods, and outcomes that change objects, are logged at info. The others need the
# level debug.
# Other answers come before a review, and any client of the port can cause them.
_REVIEWED: Final = frozenset({200, 500, 504})
_LOG_LEVELS: Final = {"translated": logging.INFO, "denied": logging.INFO, "error": logging.ERROR}


# Called with the body, the deadline in seconds, and the network peer. Most replies need no waiting,
# and no timer.
Reviewer = Callable[[bytes, float, str], Reply | PendingReply]


class Endpoint(NamedTuple):
    """What handles the reviews of a path, and the label of the path in metrics and logs."""

    webhook: str
    reviewer: Reviewer


class RequestLimits(NamedTuple):
    """The limits of one process."""

    body: int = 8 * MIB
    in_flight: int = 256  # requests whose body has been read
    total_bytes: int = 128 * MIB  # bodies that are being read or handled
    body_seconds: float = 10.0  # time to receive a body


DEFAULT_LIMITS: Final = RequestLimits()


class _Route(NamedTuple):
    """The handler of a path, and the timeout of the caller."""

    webhook: str
    reviewer: Reviewer | None
    seconds: float


class _Arrived(NamedTuple):
    """A body, from whom it is, and when its request was seen first."""

    body: bytes
    peer: str
    started: float


class AdmissionHTTPHandler:
    """Handles every request. If `closing` is set, each response closes its connection."""

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        check_ready: Callable[[], Sequence[str]],
        limits: RequestLimits = DEFAULT_LIMITS,
    ) -> None:
        self.closing = False
        self._endpoints = endpoints
        self._check_ready = check_ready
        self._routes: dict[str, _Route] = {}
        self._running = dict.fromkeys((*(each.webhook for each in endpoints.values()), _UNKNOWN), 0)
        for webhook in self._running:
            # Read at scrape time: a gauge that changes with each request costs more.
            count = functools.partial(self._running.__getitem__, webhook)
            metrics.IN_FLIGHT.labels(webhook).set_function(count)
            metrics.REQUESTS.declare(webhook)
            metrics.TRANSLATIONS.declare(webhook)
        kept = limits.in_flight // 4
        self._in_flight = PeerShares(limits.in_flight - kept, kept)
        self._bodies = RequestBodies(limits.body, limits.total_bytes, limits.body_seconds)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request."""
        started = time.perf_counter()
        path = request.raw_path
        route = self._routes.get(path) or self._find_route(path)
        self._running[route.webhook] += 1
        response: web.StreamResponse
        try:
            response = _to_response(await self._respond(request, route, started))
        except RejectedRequestError as rejected:
            response = _respond_rejected(rejected)
        except ConnectionError:  # the client is gone
            raise
        except Exception as error:  # noqa: BLE001  # any exception fails one request only
            response = _to_response(_respond_exception(error, b"", route))
        finally:
            self._running[route.webhook] -= 1
        return self._finish(response, route, started)

    def find_responder(
        self, method: str, path: str, headers: Mapping[str, str]
    ) -> Responder | None:
        """Return what responds to whole requests; None if they are rejected."""
        route = self._find_route(path)
        if route.reviewer is None or method != "POST" or headers.get(CONTENT_TYPE) != JSON:
            return None
        return functools.partial(self._respond_at_once, route, route.reviewer)

    def _respond_at_once(
        self, route: _Route, reviewer: Reviewer, body: bytes, peer: str
    ) -> WholeResponse | Awaitable[web.StreamResponse] | None:
        """Respond to a request, or begin to; None if it is rejected."""
        if self.closing or self._check_ready() or not self._in_flight.has_room(peer):
            return None
        arrived = _Arrived(body, peer, time.perf_counter())
        try:
            response = self._review(route, reviewer, arrived)
        except RejectedRequestError:
            return None
        if not isinstance(response, WholeResponse):
            return asyncio.ensure_future(self._respond_later(response, route, arrived.started))
        _measure(response.status, route, arrived.started)
        return response

    async def _respond_later(
        self, pending: Awaitable[WholeResponse], route: _Route, started: float
    ) -> web.StreamResponse:
        self._running[route.webhook] += 1
        try:
            response = _to_response(await pending)
        finally:
            self._running[route.webhook] -= 1
        return self._finish(response, route, started)

    def _finish(
        self, response: web.StreamResponse, route: _Route, started: float
    ) -> web.StreamResponse:
        if self.closing:
            response.force_close()
        _measure(response.status, route, started)
        return response

    async def _respond(
        self, request: web.BaseRequest, route: _Route, started: float
    ) -> WholeResponse:
        peer = find_peer(request.remote or "")
        reviewer = self._validate(request, route, peer)
        body = await self._bodies.read(request, route.seconds)
        self._check_room(peer)  # again: others had the places while the body arrived
        response = self._review(route, reviewer, _Arrived(body, peer, started))
        return response if isinstance(response, WholeResponse) else await response

    def _review(
        self, route: _Route, reviewer: Reviewer, arrived: _Arrived
    ) -> WholeResponse | Awaitable[WholeResponse]:
        """Review an object. What has to be awaited keeps a place from now on."""
        body, peer, started = arrived
        self._bodies.check_room(peer, body)
        seconds = route.seconds - (time.perf_counter() - started)
        try:
            reply = reviewer(body, timeouts.compute_deadline(seconds), peer)
        except Exception as error:  # noqa: BLE001  # any exception fails one request only
            return _respond_exception(error, body, route)
        if isinstance(reply, Reply):
            return _respond_reviewed(reply, route, started)
        self._bodies.hold(peer, body)
        self._in_flight.add(peer)
        return self._await_reply(reply, route, arrived)

    async def _await_reply(
        self, reply: PendingReply, route: _Route, arrived: _Arrived
    ) -> WholeResponse:
        body, peer, started = arrived
        try:
            async with asyncio.timeout(route.seconds - (time.perf_counter() - started)):
                return _respond_reviewed(await reply, route, started)
        except TimeoutError:
            message = f"no response within {route.seconds:g} seconds"
            return _respond_late(body, message, route)
        except Exception as error:  # noqa: BLE001  # any exception fails one request only
            return _respond_exception(error, body, route)
        finally:
            self._in_flight.remove(peer)
            self._bodies.let_go(peer, body)

    def _validate(self, request: web.BaseRequest, route: _Route, peer: str) -> Reviewer:
        if route.reviewer is None:
            raise RejectedRequestError(404, f"the valid paths are {' and '.join(self._endpoints)}")
        if request.method != "POST":
            raise RejectedRequestError(405, "the method must be POST", Allow="POST")
        check_content(request)
        # The API server retries both of these after Retry-After, within its timeout.
        if missing := self._check_ready():
            raise RejectedRequestError(
                503, f"not ready: {missing[0]}", Retry_After="1", Connection="close"
            )
        self._check_room(peer)
        return route.reviewer

    def _check_room(self, peer: str) -> None:
        if not self._in_flight.has_room(peer):
            raise RejectedRequestError(429, "too many concurrent requests", Retry_After="1")

    def _find_route(self, path: str) -> _Route:
        name, _, query = path.partition("?")
        endpoint = self._endpoints.get(name)
        if endpoint is None:  # not cached: the number of unknown paths is unlimited
            return _Route(_UNKNOWN, None, timeouts.DEFAULT)
        route = _Route(endpoint.webhook, endpoint.reviewer, timeouts.read_timeout(query))
        if len(self._routes) < _MAX_ROUTES:
            self._routes[path] = route
        return route


def _respond_rejected(rejected: RejectedRequestError) -> web.Response:
    closes = rejected.headers.pop("Connection", "") == "close"
    response = web.Response(text=f"{rejected}\n", status=rejected.status, headers=rejected.headers)
    if closes:
        response.force_close()
    return response


def _respond_late(body: bytes, message: str, route: _Route) -> WholeResponse:
    uid = review.read_uid(body)
    log_event(_LOG, logging.ERROR, message, webhook=route.webhook, uid=uid, status=504)
    return _respond_error(uid, 504, message, route)


def _respond_exception(error: Exception, body: bytes, route: _Route) -> WholeResponse:
    metrics.PANICS.inc()
    uid = review.read_uid(body)
    fields = {"webhook": route.webhook, "uid": uid}
    text = "request ended in an unhandled exception"
    _LOG.error(text, exc_info=error, extra={"fields": fields})
    return _respond_error(uid, 500, f"unhandled exception: {type(error).__name__}", route)


def _respond_error(uid: str, status: int, message: str, route: _Route) -> WholeResponse:
    """Respond with a review that describes the error. The status triggers the failurePolicy."""
    reply = msgspec.structs.replace(
        reply_error(uid, status, f"drawbridge: {message}"), status=status
    )
    _count(reply, route)
    return WholeResponse(reply.status, reply.body)


def _respond_reviewed(reply: Reply, route: _Route, started: float) -> WholeResponse:
    _count(reply, route)
    _log(reply, route, started)
    return WholeResponse(reply.status, reply.body)


def _to_response(response: WholeResponse) -> JSONResponse:
    return JSONResponse(response.body, response.status)


def _measure(status: int, route: _Route, started: float) -> None:
    metrics.REQUESTS.add(route.webhook, f"{status}")
    if status in _REVIEWED:
        metrics.LATENCY.add(route.webhook, time.perf_counter() - started)


def _count(reply: Reply, route: _Route) -> None:
    """Count a reply. A dry run counts as nothing but a dry run."""
    audit, is_dry_run = reply.audit, reply.dry_run and reply.outcome != "error"
    counted = "dry-run" if is_dry_run else reply.outcome
    metrics.TRANSLATIONS.add(route.webhook, reply.operation, counted)
    for code in () if is_dry_run else reply.codes:
        metrics.FINDINGS.add(code)
    if audit is not None and not is_dry_run:
        metrics.DECISIONS.add(reply.namespace, audit.mode, audit.verdict)


def _log(reply: Reply, route: _Route, started: float) -> None:
    """Log a reply, also that of a dry run."""
    audit = reply.audit
    least = logging.DEBUG if audit is None else logging.INFO
    level = _LOG_LEVELS.get(reply.outcome, least)
    if not _LOG.isEnabledFor(level):
        return
    decided = {} if audit is None else msgspec.structs.asdict(audit)
    log_event_buffered(
        _LOG,
        level,
        reply.outcome,
        webhook=route.webhook,
        uid=reply.uid,
        operation=reply.operation,
        namespace=reply.namespace,
        name=reply.name,
        codes=reply.codes,
        dryRun=reply.dry_run,
        **decided,
        ms=round((time.perf_counter() - started) * 1000, 2),
    )
