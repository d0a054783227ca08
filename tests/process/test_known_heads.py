"""A request whose head is known is the request that the parser would read."""

import asyncio
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from aiohttp import web

from drawbridge.process.http_server import HTTPServer, JSONResponse
from drawbridge.process.known_heads import HeadLayout, Responder, WholeResponse, read_layout
from tests.thorough import drawn as number_of

HEAD = b"POST /a HTTP/1.1\r\nHost: a"


@pytest.mark.parametrize(
    ("data", "layout"),
    [
        (
            HEAD + b"\r\nContent-Length: 2\r\nA: b\r\n\r\n{}",
            HeadLayout(HEAD + b"\r\nContent-Length: \r\nA: b", b"2", 54),
        ),
        (
            HEAD + b"\r\nContent-Length: 2\r\n\r\n{}",
            HeadLayout(HEAD + b"\r\nContent-Length: ", b"2", 48),
        ),
        # The layout says what is still missing.
        (
            HEAD + b"\r\nContent-Length: 20\r\n\r\n{",
            HeadLayout(HEAD + b"\r\nContent-Length: ", b"20", 49),
        ),
        (HEAD + b"\r\nContent-Length: 2\r\n", None),
        (HEAD + b"\r\n\r\n\r\nContent-Length: 2\r\n\r\n", None),
        (HEAD + b"\r\ncontent-length: 2\r\n\r\n{}", None),
        (HEAD + b"\r\nX-Content-Length: 2\r\n\r\n{}", None),
        (HEAD + b"\r\nContent-Length: +2\r\n\r\n{}", None),
        (HEAD + b"\r\nContent-Length: 02\r\n\r\n{}", None),
        (HEAD + b"\r\nContent-Length: 2 \r\n\r\n{}", None),
        (HEAD + b"\r\nContent-Length: 0\r\n\r\n", None),
        (HEAD + b"\r\nContent-Length: 100000\r\n\r\n", None),
        (HEAD + b"\r\nContent-Length: 2\nA: b\r\n\r\n{}", None),
        (HEAD + b"\r\nA: " + b"b" * 2048 + b"\r\nContent-Length: 2\r\n\r\n{}", None),
        (b"", None),
    ],
)
def test_the_layout_of_a_request(data: bytes, layout: HeadLayout | None) -> None:
    assert read_layout(data) == layout


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep data."""
        if not self.is_closed:
            self.written += data

    def close(self) -> None:
        """Write no more."""
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        """Whether nothing is written."""
        return self.is_closed

    def pause_reading(self) -> None:
        """Read on: what is fed is bounded."""

    def resume_reading(self) -> None:
        """Read on."""


class Server(HTTPServer):
    """Responds with what it reads: in tasks, or at once where a head is known."""

    def __init__(self, *, knows_heads: bool) -> None:
        finder = self._find_responder if knows_heads else None
        super().__init__(self._handle, find_responder=finder, access_log=None)
        self.at_once = 0

    def respond(self, _: object, responder: Responder, body: bytes) -> WholeResponse | None:
        """Respond at once, but for some bodies."""
        response = responder(body, "")
        if not isinstance(response, WholeResponse):
            return None
        self.at_once += 1
        return response

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return JSONResponse(_describe(request.method, request.raw_path, await request.read()))

    @staticmethod
    def _find_responder(method: str, path: str, _: object) -> Responder | None:
        def respond(body: bytes, _: str) -> WholeResponse | None:
            return None if b"task" in body else WholeResponse(200, _describe(method, path, body))

        return respond if path != "/other" else None


def _describe(method: str, path: str, body: bytes) -> bytes:
    return repr((method, path, body)).encode()


BODIES = (b"{}", b"", b"task", b"x" * 300, b"x" * 70_000, b"POST / HTTP/1.1\r\n\r\n", b"\r\n\r\n{}")
PAUSE = b""  # until all tasks wait
# What follows the line of the request; %d is the length.
HEADERS = (
    *[b"Host: a\r\nContent-Length: %d\r\nA: b"] * 6,
    b"Host: a\r\nContent-Length: %d",
    b"Host: a\r\ncontent-length: %d",
    b"Host: a\r\nContent-Length: 0%d",
    b"Host: a\r\nA: b\r\n Content-Length: 3\r\nContent-Length: %d",
    b"Host: a\r\nContent-Length: %d\r\nContent-Length: 2",
    b"Host: a\r\nContent-Length: %d\r\nTransfer-Encoding: chunked",
    b"Host: a\r\nTransfer-Encoding: chunked\r\nX: \r\nContent-Length: %d",
    b"Host: a\r\nContent-Length: %d\r\nConnection: close",
    b"Host: a\r\nContent-Length: %d\r\nconnection: keep-alive",
    b"Host: a\r\nContent-Length: %d\r\nConnection: Upgrade\r\nUpgrade: websocket",
    b"Host: a\r\nContent-Length: %d\r\nProxy-Connection: close",
    b"Host: a\r\nContent-Length: %d\r\nNo colon",
    b"Content-Length: %d",
)
LINES = (*[b"POST /a HTTP/1.1"] * 6, b"POST /other HTTP/1.1", b"GET /a HTTP/1.1")
ODD_LINES = (
    b"CONNECT a:1 HTTP/1.1",
    b"POST /a HTTP/1.0",
    b"\r\nPOST /a HTTP/1.1",
    b"POST /a HTTP/9.9",
    b"nothing",
)


def draw_chunks(drawn: random.Random) -> Iterator[bytes]:
    """Yield what a client sends: mostly whole requests, sometimes parts and several at once."""
    whole = b"POST /a HTTP/1.1\r\n" + HEADERS[0].replace(b"%d", b"2") + b"\r\n\r\n{}"
    yield from [whole, PAUSE] * drawn.randint(1, 3)
    pending = b""
    for _ in range(drawn.randint(2, 12)):
        body = drawn.choice(BODIES)
        line = drawn.choice(ODD_LINES if drawn.random() < 0.1 else LINES)
        headers = drawn.choice(HEADERS if drawn.random() < 0.5 else HEADERS[:1])
        pending += line + b"\r\n" + headers.replace(b"%d", b"%d" % len(body)) + b"\r\n\r\n" + body
        kind = drawn.random()
        if kind < 0.15:
            continue
        if kind < 0.4:
            at = drawn.randint(0, len(pending))
            yield pending[:at]
            if drawn.random() < 0.3:
                pending = pending[at:]
                continue
            pending = pending[at:]
        yield pending
        if drawn.random() < 0.7:
            yield PAUSE
        pending = b""
    yield pending


async def play(server: Server, connections: Sequence[Sequence[bytes]]) -> list[tuple[Any, ...]]:
    """Return what each connection gets, without dates, and whether it ends."""
    results = []
    for chunks in connections:
        protocol, transport = server(), Transport()
        protocol.connection_made(transport)
        await settle()
        for chunk in chunks:
            if chunk == PAUSE:
                await settle()
            else:
                protocol.data_received(chunk)
        await settle()
        got = re.sub(rb"Date: [^\r]*\r\n", b"", transport.written)
        results.append((got.splitlines(), transport.is_closed))
        protocol.connection_lost(None)
        await settle()
    return results


async def settle() -> None:
    """Let all tasks go on until they wait."""
    for _ in range(12):
        await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(number_of(40, 2000)))
def test_known_heads_change_no_response(seed: int) -> None:
    drawn = random.Random(seed)
    connections = [[*draw_chunks(drawn)] for _ in range(6)]

    async def compare() -> int:
        plain, quick = Server(knows_heads=False), Server(knows_heads=True)
        assert await play(quick, connections) == await play(plain, connections)
        return quick.at_once

    assert asyncio.run(compare()) > 0


def test_a_client_that_splits_a_request_has_whole_ones_afterwards() -> None:
    whole = HEAD + b"\r\nContent-Length: 2\r\n\r\n{}"
    begun, rest = whole[:49], whole[49:]
    assert rest

    async def count(chunks: Sequence[bytes]) -> int:
        server = Server(knows_heads=True)
        await play(server, [chunks])
        return server.at_once

    assert asyncio.run(count((whole, PAUSE, whole, begun, rest, PAUSE, whole))) == 2
    assert asyncio.run(count((whole, PAUSE, whole + begun, rest, PAUSE, whole))) == 0


@pytest.mark.parametrize(
    ("line", "more"),
    [
        (b"POST /a HTTP/1.1", b"Connection: close"),
        (b"POST /a HTTP/1.1", b"connection: Upgrade\r\nUpgrade: h2c"),
        (b"POST /a HTTP/1.1", b"Expect: 100-continue"),
        (b"POST /a HTTP/1.1", b"Content-Encoding: gzip"),
        (b"POST /a HTTP/1.0", b"Connection: keep-alive"),
        (b"POST /other HTTP/1.1", b"A: b"),
    ],
)
def test_a_request_that_is_more_than_its_body_is_never_whole(line: bytes, more: bytes) -> None:
    whole = line + b"\r\nHost: a\r\nContent-Length: 2\r\n" + more + b"\r\n\r\n{}"

    async def count() -> int:
        server = Server(knows_heads=True)
        await play(server, [(whole, PAUSE, whole), (whole, PAUSE, whole)])
        return server.at_once

    assert asyncio.run(count()) == 0


def test_a_request_to_another_path_leaves_the_next_one_whole() -> None:
    whole = HEAD + b"\r\nContent-Length: 2\r\n\r\n{}"
    other = whole.replace(b"/a", b"/other")

    async def count() -> int:
        server = Server(knows_heads=True)
        await play(server, [(whole, PAUSE, other, PAUSE, other, PAUSE, whole)])
        return server.at_once

    assert asyncio.run(count()) == 1


@pytest.mark.parametrize(
    ("line", "more"),
    [
        # What follows is the beginning of another request.
        (b"CONNECT a:1 HTTP/1.1", b"A: b"),
        (b"POST /a HTTP/1.1", b"Proxy-Connection: close"),
    ],
)
def test_a_request_that_the_parser_does_not_end_by_its_length_is_not_known(
    line: bytes, more: bytes
) -> None:
    whole = HEAD + b"\r\nContent-Length: 2\r\n\r\n{}"
    body = b"POST /a HTTP/1.1\r\nHost: a\r\nA: "
    odd = line + b"\r\nHost: a\r\n" + more + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    connections = [(whole, PAUSE, odd, PAUSE, whole), (whole, PAUSE, odd, PAUSE, whole)]

    async def compare() -> None:
        plain, quick = Server(knows_heads=False), Server(knows_heads=True)
        assert await play(quick, connections) == await play(plain, connections)

    asyncio.run(compare())
