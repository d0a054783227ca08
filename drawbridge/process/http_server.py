"""The HTTP server of all listeners: its responses do not tell the versions of what runs.

aiohttp parses each request into many objects and handles it in a task of its own, which takes
longer than most reviews. A whole request with a known head, on a connection that waits, gets its
response without both. aiohttp handles all others as if there were no known heads.
"""

import http
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any

from aiohttp import HttpVersion11, web
from aiohttp.hdrs import SERVER
from aiohttp.web_protocol import RequestHandler

from drawbridge.process.known_heads import (
    FindResponder,
    HeadLayout,
    KnownHeads,
    Responder,
    WholeResponse,
    read_layout,
)

_NAME = "drawbridge"
HandleFunction = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HTTPServer(web.Server):
    """Serves connections, and also responds to malformed requests without a version."""

    def __init__(
        self,
        handle: HandleFunction,
        *,
        find_responder: FindResponder | None = None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(handle, **options)
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
    __slots__ = ("_missing", "_server")

    def __init__(self, server: HTTPServer, **options: Any) -> None:  # noqa: ANN401
        super().__init__(server, **options)
        self._server = server
        # How many bytes of a request are still to come; negative if nobody but the parser knows.
        self._missing = 0 if server.heads else -1

    def data_received(self, data: bytes) -> None:
        """Respond to a whole request, or feed the parser."""
        heads = self._server.heads
        if self._missing or heads is None or not data:
            self._missing -= len(data)
            super().data_received(data)
            return
        layout = read_layout(data)
        if layout is None:
            self._missing = -1
            super().data_received(data)
            return
        responder = heads.find(layout.head)
        if responder and layout.end == len(data) and self._respond(responder, layout, data):
            return
        queued = len(self._messages)
        super().data_received(data)
        if responder is None:
            arrived = [message for message, _ in self._messages][queued:]
            is_known = len(arrived) == 1 and heads.learn(layout, arrived[0])
        else:
            is_known = True
        self._missing = layout.end - len(data) if is_known else -1

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
