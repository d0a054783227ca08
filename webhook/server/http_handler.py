"""The door of admission: from HTTP requests to whoever answers reviews, and back.

Method, path, type, size, time and number are judged here, cheapest first; what a review means is
the answerer's business. A bug there costs one request. Knows nothing of TLS and of sockets.
"""

import asyncio
import functools
import logging
import time
import types
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from aiohttp import web
from aiohttp.hdrs import CONTENT_ENCODING, CONTENT_TYPE
from aiohttp.web_protocol import RequestPayloadError

from runtime import metrics, review, timeouts
from runtime.logs import say, say_soon
from runtime.review import Denial
from webhook.admission.handler import Reply

_LOG: Final = logging.getLogger("serve.admission")
JSON: Final = "application/json"
_JSON_HEADERS: Final = {"Content-Type": JSON, "Server": "drawbridge"}
_UNKNOWN: Final = "unknown"
_WAYS: Final = 256  # texts of paths remembered; the API server sends two
MIB: Final = 1 << 20
_REASONS: Final = {500: "InternalError", 504: "Timeout"}
# At info an administrator sees what was done to pods; that nothing was, only when asked.
_TOLD: Final = {"translated": logging.INFO, "denied": logging.INFO, "error": logging.ERROR}


class Answers(Protocol):
    """Who answers reviews."""

    async def pods(self, body: bytes, seconds: float | None = None) -> Reply:
        """Answer about a pod."""

    async def workloads(self, body: bytes, seconds: float | None = None) -> Reply:
        """Answer about an object with a pod template."""


class Limits(NamedTuple):
    """What one process takes on."""

    body: int = 8 * MIB
    in_flight: int = 256  # that are being answered, their bodies read
    held: int = 128 * MIB  # of bodies that are coming in or being answered
    slow: float = 10.0  # seconds a body may take to come in


LIMITS: Final = Limits()
Asked = Coroutine[Any, Any, Reply]
Ask = Callable[[bytes, float], Asked]


class _Way(NamedTuple):
    """Where a path leads, and how long its caller waits."""

    webhook: str
    ask: Ask | None
    seconds: float


class RefusedError(Exception):
    """A request that is answered without asking anybody."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Door:
    """Answers every request; `closing` makes each answer the last of its connection."""

    def __init__(
        self, answers: Answers, ready: Callable[[], Sequence[str]], limits: Limits = LIMITS
    ) -> None:
        self.closing = False
        self._asks: Mapping[str, Ask] = {
            "/admit/pods": answers.pods,
            "/admit/workloads": answers.workloads,
        }
        self._ready = ready
        self._limits = limits
        self._ways: dict[str, _Way] = {}
        self._running = dict.fromkeys((*map(_webhook, self._asks), _UNKNOWN), 0)
        for webhook in self._running:
            # Read when somebody looks: a gauge that goes up and down costs more than to count.
            count = functools.partial(self._running.__getitem__, webhook)
            metrics.IN_FLIGHT.labels(webhook).set_function(count)
        self._asking = 0
        self._held = 0

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Answer one request."""
        started = time.perf_counter()
        path = request.raw_path
        way = self._ways.get(path) or self._way(path)
        self._running[way.webhook] += 1
        try:
            answer = await self._answer(request, way, started)
        except RefusedError as refused:
            answer = _text(refused)
        except ConnectionError:  # nobody is there any more to be answered
            raise
        except Exception as bug:  # noqa: BLE001  # whatever it is, it costs one request only
            answer = _crashed(bug, b"", way)
        finally:
            self._running[way.webhook] -= 1
        if self.closing:
            answer.force_close()
        metrics.REQUESTS.add(way.webhook, f"{answer.status}")
        metrics.LATENCY.add(way.webhook, time.perf_counter() - started)
        return answer

    async def _answer(self, request: web.BaseRequest, way: _Way, started: float) -> web.Response:
        ask = self._may_come_in(request, way)
        body = await self._body(request, way.seconds)
        seconds = way.seconds - (time.perf_counter() - started)
        if self._held + len(body) > self._limits.held:  # whoever waits keeps a body as well
            raise self._too_much()
        self._asking += 1
        self._held += len(body)
        try:
            reply = await _within(seconds, ask(body, timeouts.deadline(seconds)))
        except TimeoutError:
            message = f"there was no answer within {way.seconds:g} seconds"
            return _failed(body, 504, message, way)
        except Exception as bug:  # noqa: BLE001  # whatever it is, it costs one request only
            return _crashed(bug, body, way)
        finally:
            self._asking -= 1
            self._held -= len(body)
        _tell(reply, way, started)
        return web.Response(body=reply.body, status=reply.status, headers=_JSON_HEADERS)

    def _may_come_in(self, request: web.BaseRequest, way: _Way) -> Ask:
        if way.ask is None:
            raise RefusedError(404, f"there are {' and '.join(self._asks)}")
        if request.method != "POST":
            raise RefusedError(405, "a review is sent by POST", Allow="POST")
        headers = request.headers
        if headers.get(CONTENT_TYPE) != JSON and request.content_type != JSON:
            raise RefusedError(415, f"a review is {JSON}", Accept_Post=JSON)
        if headers.get(CONTENT_ENCODING, "identity") != "identity":
            raise RefusedError(415, "a review is not compressed", Accept_Encoding="identity")
        # To these two the API server listens: after Retry-After it asks again, within its timeout.
        if missing := self._ready():
            raise RefusedError(503, f"not ready: {missing[0]}", Retry_After="1", Connection="close")
        if self._asking >= self._limits.in_flight:
            raise RefusedError(429, "too many requests at once", Retry_After="1")
        return way.ask

    async def _body(self, request: web.BaseRequest, seconds: float) -> bytes:
        content = request.content
        if content.is_eof():  # it came with the headers, as bodies of pods do
            body = content.read_nowait()
            if len(body) > self._limits.body:
                raise self._too_large()
            return body
        if (request.content_length or 0) > self._limits.body:
            raise self._too_large()
        await _expected(request)
        patience = min(seconds, self._limits.slow)
        try:
            async with asyncio.timeout(patience):
                return await self._gathered(request)
        except TimeoutError:
            message = f"the body did not come within {patience:g} seconds"
            raise RefusedError(408, message, Connection="close") from None
        except RequestPayloadError as error:
            raise RefusedError(400, f"the body is broken: {error}", Connection="close") from None

    async def _gathered(self, request: web.BaseRequest) -> bytes:
        """Read a body that comes piece by piece; all such bodies together stay within a bound."""
        body = bytearray()
        try:
            while piece := await request.content.readany():
                body += piece
                self._held += len(piece)
                if len(body) > self._limits.body:
                    raise self._too_large()
                if self._held > self._limits.held:
                    raise self._too_much()
        finally:
            self._held -= len(body)
        return bytes(body)

    def _too_large(self) -> RefusedError:
        message = f"a review of more than {self._limits.body} bytes is not read"
        return RefusedError(413, message, Connection="close")

    @staticmethod
    def _too_much() -> RefusedError:
        return RefusedError(429, "too much at once", Retry_After="1", Connection="close")

    def _way(self, path: str) -> _Way:
        name, _, query = path.partition("?")
        ask = self._asks.get(name)
        if ask is None:  # not remembered: there is no end to such paths
            return _Way(_UNKNOWN, None, timeouts.DEFAULT)
        way = _Way(_webhook(name), ask, timeouts.allowed(query))
        if len(self._ways) < _WAYS:
            self._ways[path] = way
        return way


def _webhook(path: str) -> str:
    return path.rpartition("/")[2]


async def _within(seconds: float, asked: Asked) -> Reply:
    """Wait so long for an answer.

    Nearly all answers come at once; to begin with the answer and start a clock only when there is
    something to wait for spares them a twentieth of all that a request costs.
    """
    try:
        waiting = asked.send(None)
    except StopIteration as done:
        reply: Reply = done.value
        return reply
    async with asyncio.timeout(seconds):
        return await _go_on(asked, waiting)


@types.coroutine
def _go_on(asked: Asked, waiting: object) -> Generator[Any, Any, Reply]:
    """Go on with what was begun, as `await` would have."""
    while True:
        try:
            sent = yield waiting
        except BaseException as thrown:  # noqa: BLE001  # whatever it is, it is for who waits
            step = functools.partial(asked.throw, thrown)
        else:
            step = functools.partial(asked.send, sent)
        try:
            waiting = step()
        except StopIteration as done:
            reply: Reply = done.value
            return reply


async def _expected(request: web.BaseRequest) -> None:
    """Ask for the body of who waits to be asked."""
    expects = request.headers.get("Expect")
    if expects is None:
        return
    if expects.lower() != "100-continue":
        raise RefusedError(417, "only 100-continue can be expected", Connection="close")
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # That was no part of the answer, which aiohttp would take for begun otherwise.
    request.writer.output_size = 0


def _text(refused: RefusedError) -> web.Response:
    closes = refused.headers.pop("Connection", "") == "close"
    answer = web.Response(text=f"{refused}\n", status=refused.status, headers=refused.headers)
    if closes:
        answer.force_close()
    return answer


def _failed(body: bytes, status: int, message: str, way: _Way) -> web.Response:
    uid = review.decode(body).uid
    say(_LOG, logging.ERROR, message, webhook=way.webhook, uid=uid, status=status)
    return _no_answer(uid, status, message, way)


def _crashed(bug: Exception, body: bytes, way: _Way) -> web.Response:
    metrics.PANICS.inc()
    uid = review.decode(body).uid
    fields = {"webhook": way.webhook, "uid": uid}
    _LOG.error("a bug ended the request", exc_info=bug, extra={"fields": fields})
    return _no_answer(uid, 500, f"this is a bug: {type(bug).__name__}", way)


def _no_answer(uid: str, status: int, message: str, way: _Way) -> web.Response:
    """Write a review that says why there is no answer; the status makes failurePolicy decide."""
    metrics.TRANSLATIONS.add(way.webhook, "", "error")
    denial = Denial(status, _REASONS[status], f"drawbridge: {message}")
    body = review.answer(uid, review.denied(denial))
    return web.Response(body=body, status=status, headers=_JSON_HEADERS)


def _tell(reply: Reply, way: _Way, started: float) -> None:
    metrics.TRANSLATIONS.add(way.webhook, reply.operation, reply.outcome)
    for code in reply.codes:
        metrics.FINDINGS.add(code)
    level = _TOLD.get(reply.outcome, logging.DEBUG)
    if not _LOG.isEnabledFor(level):
        return
    say_soon(
        _LOG,
        level,
        reply.outcome,
        webhook=way.webhook,
        uid=reply.uid,
        operation=reply.operation,
        namespace=reply.namespace,
        name=reply.name,
        codes=reply.codes,
        ms=round((time.perf_counter() - started) * 1000, 2),
    )
