"""No response of a listener tells the versions of aiohttp and Python."""

import asyncio
import io
import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from unittest.mock import Mock

import pytest
from aiohttp import web

from drawbridge.process.addresses import Address
from drawbridge.process.health import serve_operations
from drawbridge.process.http_server import HTTPServer, JSONResponse
from tests.process import http_client
from tests.process.http_client import Response, request
from tests.webhook.server.served import serve

ANY = Address("127.0.0.1", 0)
MALFORMED = b"GET / HTTP/9.9\r\nno header\r\n\r\n"


@pytest.mark.parametrize("listener", ["health", "metrics"])
@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("GET", "/readyz"), None),
        (request("GET", "/metrics"), None),
        (request("GET", "/nothing"), 404),
        (request("DELETE", "/metrics"), 405),
        (MALFORMED, 400),
    ],
)
def test_operations_do_not_tell_versions(
    lines: io.StringIO, listener: str, data: bytes, status: int | None
) -> None:
    async def play() -> Response:
        async with serve_operations(ANY, ANY, list):
            read = map(json.loads, lines.getvalue().splitlines())
            (port,) = (
                int(line["address"].rpartition(":")[2])
                for line in read
                if line["msg"] == "listening" and line["name"] == listener
            )
            async with http_client.connect(port) as connection:
                return await connection.send_request(data)

    check(asyncio.run(play()), status)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("POST", "/admit/pods", b'{"request":{"uid":"u"}}'), None),
        (request("GET", "/admit/pods"), 405),
        (request("POST", "/nothing"), 404),
        (MALFORMED, 400),
    ],
)
def test_admission_does_not_tell_versions(tmp_path: Path, data: bytes, status: int | None) -> None:
    async def play() -> Response:
        async with serve(tmp_path) as server:
            return await server.send(data)

    check(asyncio.run(play()), status)


def check(response: Response, status: int | None) -> None:
    assert status in (None, response.status)
    assert response.headers["server"] == "drawbridge"
    told = [text for text in response.headers.values() if "aiohttp" in text or "Python" in text]
    assert told == []
    assert response.status == 200 or b"aiohttp" not in response.body


def _head(method: str, version: str, more: str = "") -> bytes:
    return f"{method} / HTTP/{version}\r\nHost: a\r\n{more}\r\n".encode()


@pytest.mark.parametrize(
    ("data", "ends"),
    [
        (_head("GET", "1.1"), False),
        (_head("GET", "1.1", "Connection: close\r\n"), True),
        (_head("GET", "1.0"), True),
        (_head("GET", "1.0", "Connection: keep-alive\r\n"), True),
    ],
)
def test_a_json_response_is_one_write_that_says_whether_the_connection_ends(
    data: bytes,
    ends: bool,  # noqa: FBT001  # a parameter of pytest
) -> None:
    writes: list[bytes] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        write = transport.write
        with_record = Mock(side_effect=lambda data: (writes.append(bytes(data)), write(data)))
        transport.write = with_record  # type: ignore[method-assign]  # only recorded
        return JSONResponse(b'{"a":1}')

    async def play() -> tuple[Response, bool]:
        served = await asyncio.get_running_loop().create_server(HTTPServer(handle), "127.0.0.1", 0)
        async with served, http_client.connect(served.sockets[0].getsockname()[1]) as connection:
            response = await connection.send_request(data)
            return response, ends and await connection.wait_closed()

    response, ended = asyncio.run(play())
    assert len(writes) == 1
    assert (response.status, response.body, ended) == (200, b'{"a":1}', ends)
    assert response.headers["content-type"] == "application/json"
    assert (response.headers.get("connection") == "close") is ends
    sent = parsedate_to_datetime(response.headers["date"])
    assert sent <= datetime.now(UTC)
