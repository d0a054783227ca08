"""The HTTP server of all listeners: its responses do not tell the versions of what runs.

What the parser keeps of a request before it is handled is bounded, in bytes and in time.

aiohttp parses each request into many objects and handles it in a task of its own, which takes
longer than most reviews. A whole request with a known head, on a connection that waits, gets its
response without both. aiohttp handles all others as if there were no known heads.
"""

import asyncio
import http
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any, Final

from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.hdrs import SERVER
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import RequestHandler

from drawbridge.process.known_heads import (
    FindResponder,
    HeadLayout,
    KnownHeads,
    Responder,
    WholeResponse,
    read_layout,
)
from drawbridge.process.network_peers import OVERDUE_SECONDS

_NAME = "drawbridge"
# Of what aiohttp keeps of a request besides its body: it allows 128 headers, and keeps each twice.
MAX_HEAD_BYTES: Final = 32 * 1024
# How many requests wait for the one before, until nothing more is read from a connection.
_MAX_QUEUE: Final = 2
_MALFORMED: Final = "the request is malformed, or a part of its head is too large\n"
HandleFunction = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HTTPServer(web.Server):
    """Serves connections, and also responds to malformed requests without a version."""

    def __init__(
        self,
        handle: HandleFunction,
        *,
        find_responder: FindResponder | None = None,
        max_head: int = MAX_HEAD_BYTES,
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(handle, max_field_size=max_head, **options)
        self.max_head = max_head
        self.heads = KnownHeads(find_responder) if find_responder else None

    def __call__(self) -> RequestHandler:
        """Return the protocol of a new connection."""
        return _Connection(self, loop=self._loop, **self._kwargs)

    def respond(
        self, connection: RequestHandler, responder: Responder, body: bytes
    ) -> WholeResponse | None:
        """Respond to a whole request; None leaves it to the task of its connection."""
        del connection, responder, body
        return None


class _Connection(RequestHandler):
    __slots__ = ("_body", "_deadline", "_kept", "_missing", "_progress", "_server")

    def __init__(self, server: HTTPServer, **options: Any) -> None:  # noqa: ANN401
        super().__init__(server, **options)
        self._server = server
        # How many bytes of a request are still to come; negative if nobody but the parser knows.
        self._missing = 0 if server.heads else -1
        # Of requests that wait for the one before, aiohttp reads 32, whatever their size.
        self._max_msg_queue_size, self._msg_queue_resume_size = _MAX_QUEUE, _MAX_QUEUE - 1
        # The body of the newest request, and how far the parser has come.
        self._body: StreamReader = EMPTY_PAYLOAD
        self._progress = (0, 0, True)
        # How many bytes the parser got since then, and when the connection ends because of them.
        self._kept = 0
        self._deadline: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Respond to a whole request, or feed the parser."""
        heads = self._server.heads
        if self._missing or heads is None or not data:
            self._missing -= len(data)
            self._feed(data)
            return
        layout = read_layout(data)
        if layout is None:
            self._missing = -1
            self._feed(data)
            return
        responder = heads.find(layout.head)
        if responder and layout.end == len(data) and self._respond(responder, layout, data):
            return
        queued = len(self._messages)
        self._feed(data)
        if responder is None:
            arrived = [message for message, _ in self._messages][queued:]
            is_known = len(arrived) == 1 and heads.learn(layout, arrived[0])
        else:
            is_known = True
        self._missing = layout.end - len(data) if is_known else -1

    def _feed(self, data: bytes) -> None:
        """Feed the parser; end a connection that sends too much of a head, or for too long.

        The fields after a body in chunks count as well. The time of a body has limits of its own.
        """
        super().data_received(data)
        if self._close or self._upgraded:  # it is ignored, or aiohttp bounds it
            return
        if self._request_count != self._progress[0] and self._messages:
            self._body = self._messages[-1][1]
        is_whole = self._body.is_eof()
        progress = self._request_count, self._body.total_bytes, is_whole
        if progress != self._progress:
            self._progress, self._kept = progress, 0
            self._forget_deadline()
            return
        self._kept += len(data)
        if self._kept > self._server.max_head:
            self._abort()
        elif self._kept and is_whole and self._deadline is None:
            self._deadline = self._loop.call_later(OVERDUE_SECONDS, self._end_overdue)

    def _end_overdue(self) -> None:
        """End a connection that waits for the rest of a head, or look again when it waits."""
        waiter = self._waiter
        if waiter is None or waiter.done():  # the rest may be there, and is not read
            self._deadline = self._loop.call_later(OVERDUE_SECONDS, self._end_overdue)
        else:
            self._abort()

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the connection."""
        self._forget_deadline()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Respond to a request that is malformed, or whose handler failed."""
        # The message of aiohttp quotes the request, such as a token in it.
        return super().handle_error(request, status, exc, message and _MALFORMED)

    def _respond(self, responder: Responder, layout: HeadLayout, data: bytes) -> bool:
        """Respond to a request, unless the task of the connection has to do so."""
        waiter, transport = self._waiter, self.transport
        is_idle = waiter is not None and not waiter.done() and not self._messages
        if not is_idle or self.writing_paused or transport is None or transport.is_closing():
            return False
        response = self._server.respond(self, responder, data[layout.body_at :])
        if response is None:
            return False
        head = f"{_compose_head(response.status, int(time.time()))}{len(response.body)}\r\n\r\n"
        transport.write(head.encode("ascii") + response.body)
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        return True

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        # aiohttp adds its own version and that of Python to a response without this header. All
        # responses pass here, also those that aiohttp composes itself.
        if isinstance(resp, JSONResponse):
            return await super().finish_response(request, resp, start_time)
        if isinstance(resp, web.StreamResponse):
            resp.headers[SERVER] = _NAME
        return await super().finish_response(request, resp, start_time)


class JSONResponse(web.StreamResponse):
    """A response with a JSON body, whose head and body are one write.

    aiohttp composes the head of a response from a dictionary of headers, which costs more than many
    reviews. Here it is a constant text but for the length, the date, and the end of the connection.
    """

    def __init__(self, body: bytes, status: int = 200) -> None:
        super().__init__(status=status)
        self._json = body

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write the response; `write_eof` then has nothing left to write."""
        ended = self.keep_alive is False or request.version != HttpVersion11
        self._keep_alive = False if ended else request.keep_alive
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has closed the connection")
        end = "" if self._keep_alive else "Connection: close\r\n"
        length, body = len(self._json), b"" if request.method == "HEAD" else self._json
        head = f"{_compose_head(self.status, int(time.time()))}{length}\r\n{end}\r\n"
        transport.write(head.encode("ascii") + body)
        await request.writer.drain()
        self._eof_sent = True


_heads: dict[int, tuple[int, str]] = {}


def _compose_head(status: int, second: int) -> str:
    """Return the head of a response up to the value of Content-Length."""
    kept = _heads.get(status)
    if kept is not None and kept[0] == second:
        return kept[1]
    head = (
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\n"
        f"Content-Type: application/json\r\nServer: {_NAME}\r\n"
        f"Date: {formatdate(second, usegmt=True)}\r\nContent-Length: "
    )
    _heads[status] = (second, head)  # by statuses of HTTP, so few
    return head
