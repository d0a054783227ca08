"""A connection keeps little of requests that are not handled yet, and not for long."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from drawbridge.process import http_server
from drawbridge.process.http_server import HTTPServer
from drawbridge.process.logs import connection_logger
from tests.process import http_client
from tests.process.http_client import Connection, request

MAX_HEAD = 1000
HEAD = b"POST / HTTP/1.1\r\nHost: a\r\n"
CHUNKS = HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
LENGTH = HEAD + b"Content-Length: 5\r\n\r\n"
# A part of a head that never ends, or one that does.
FIELD = b"X-Padding: " + b"a" * 300 + b"\r\n"


class Server(HTTPServer):
    """Answers each request with its body, once it may."""

    def __init__(self, max_head: int = MAX_HEAD) -> None:
        super().__init__(self.echo, max_head=max_head, logger=connection_logger())
        self.unblocked = asyncio.Event()
        self.unblocked.set()

    async def echo(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer with the body."""
        await self.unblocked.wait()
        return web.Response(body=await request.read())

    def count_waiting(self) -> int:
        """Return how many requests are read, and not handled yet."""
        return sum(len(each._messages) for each in self.connections)  # noqa: SLF001


@contextlib.asynccontextmanager
async def connect(server: Server) -> AsyncIterator[Connection]:
    opened = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    async with opened, http_client.connect(opened.sockets[0].getsockname()[1]) as connection:
        yield connection


def play(what: Callable[[Connection], Awaitable[object]], max_head: int = MAX_HEAD) -> object:
    async def run() -> object:
        async with asyncio.timeout(5), connect(Server(max_head)) as connection:
            return await what(connection)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("begin", "part"),
    [
        (HEAD, FIELD),
        (b"GET /", b"a" * 300),
        (b"", b"\r\n" * 150),
        (CHUNKS + b"0\r\n", FIELD),  # fields after a body
        (request() + HEAD, FIELD),
    ],
    ids=["head", "path", "lines", "trailer", "second head"],
)
def test_a_head_that_never_ends_ends_the_connection(
    begin: bytes, part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "OVERDUE_SECONDS", 60)

    async def send(connection: Connection) -> None:
        with contextlib.suppress(ConnectionError):
            await connection.send(begin)
            for _ in range(2 * MAX_HEAD // len(part)):
                await connection.send(part)
                await asyncio.sleep(0.001)
        await connection.wait_closed()

    play(send)


@pytest.mark.parametrize("sent", [HEAD, b"GE", request() + HEAD + FIELD[:9]])
def test_a_head_that_takes_too_long_ends_the_connection(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "OVERDUE_SECONDS", 0.05)

    async def send(connection: Connection) -> bool:
        if sent.startswith(request()):
            await connection.send_request(request())
        await connection.send(sent.removeprefix(request()))
        return await connection.wait_closed()

    assert play(send) is True


@pytest.mark.parametrize(
    "parts",
    [
        (HEAD, b"Content-Length: 0\r\n\r\n"),
        (LENGTH, b"he", b"llo"),
        (CHUNKS, b"0\r\n\r\n"),
        (CHUNKS, b"0\r\n", FIELD, b"\r\n"),
    ],
    ids=["head", "body", "last chunk", "trailer"],
)
def test_a_request_in_parts_is_answered_and_its_connection_stays(
    parts: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = 0.05
    monkeypatch.setattr(http_server, "OVERDUE_SECONDS", 2 * pause)

    async def send(connection: Connection) -> list[int]:
        for part in parts:
            await connection.send(part)
            await asyncio.sleep(pause)
        statuses = [(await connection.read_response()).status]
        await asyncio.sleep(4 * pause)
        statuses.append((await connection.send_request(request())).status)
        return statuses

    assert play(send) == [200, 200]


def test_a_body_may_take_longer_than_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "OVERDUE_SECONDS", 0.05)

    async def send(connection: Connection) -> bytes:
        await connection.send(LENGTH + b"he")
        await asyncio.sleep(0.2)
        return (await connection.send_request(b"llo")).body

    assert play(send) == b"hello"


def test_a_head_behind_a_request_that_is_handled_has_its_time_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "OVERDUE_SECONDS", 0.05)

    async def run() -> tuple[bytes, bool]:
        server = Server()
        server.unblocked.clear()
        async with asyncio.timeout(5), connect(server) as connection:
            await connection.send(LENGTH + b"hello")
            await asyncio.sleep(0.01)
            await connection.send(HEAD)
            await asyncio.sleep(0.2)
            server.unblocked.set()
            return (await connection.read_response()).body, await connection.wait_closed()

    assert asyncio.run(run()) == (b"hello", True)


def test_of_requests_that_wait_few_are_read() -> None:
    async def run() -> tuple[int, list[bytes]]:
        server = Server()
        server.unblocked.clear()
        async with connect(server) as connection:
            bodies = [f"{number:05}".encode() for number in range(12)]
            for body in bodies:
                await connection.send(LENGTH + body)
                await asyncio.sleep(0.01)
            waiting = server.count_waiting()
            server.unblocked.set()
            return waiting, [(await connection.read_response()).body for _ in bodies]

    waiting, bodies = asyncio.run(run())
    assert waiting == 2
    assert bodies == [f"{number:05}".encode() for number in range(12)]


@pytest.mark.parametrize(
    ("size", "status"), [(16 * 1024, 200), (http_server.MAX_HEAD_BYTES + 1, 400)]
)
def test_a_field_may_be_as_large_as_a_head(
    size: int, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "secret" * (size // 6 + 1)

    async def send(connection: Connection) -> http_client.Response:
        data = request("GET", "/", headers={"Authorization": f"Bearer {secret}"})
        return await connection.send_request(data)

    response = play(send, http_server.MAX_HEAD_BYTES)
    assert isinstance(response, http_client.Response)
    assert response.status == status
    # Neither the response nor the log quotes the request.
    assert b"secret" not in response.body
    assert all("secret" not in f"{each.__dict__}" for each in caplog.records)
    assert len(caplog.records) == (status == 400)
