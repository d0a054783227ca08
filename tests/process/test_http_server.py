"""No response of a listener tells the versions of aiohttp and Python."""

import asyncio
import io
import json
from pathlib import Path

import pytest

from drawbridge.process.addresses import Address
from drawbridge.process.health import serve_operations
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
