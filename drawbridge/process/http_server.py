"""The HTTP server of all listeners: its responses do not tell the versions of what runs."""

import http
import time
from email.utils import formatdate

from aiohttp import HttpVersion11, web
from aiohttp.hdrs import SERVER
from aiohttp.web_protocol import RequestHandler

_NAME = "drawbridge"


class HTTPServer(web.Server):
    """Serves connections, and also responds to malformed requests without a version."""

    def __call__(self) -> RequestHandler:
        """Return the protocol of a new connection."""
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(RequestHandler):
    __slots__ = ()

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
