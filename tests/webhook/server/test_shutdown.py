"""Graceful shutdown: close connections after responses, stop listening, then finish requests."""

import asyncio
from pathlib import Path

import pytest

from tests.process.http_client import Response, request, review
from tests.webhook.server.served import serve


def test_responses_close_their_connection_while_closing(tmp_path: Path) -> None:
    async def play() -> tuple[Response, Response, bool, Response]:
        async with serve(tmp_path) as server, server.connect() as connection:
            before = await connection.send_request(request(body=review("before")))
            server.handler.closing = True
            after = await connection.send_request(request(body=review("after")))
            return (
                before,
                after,
                await connection.wait_closed(),
                await server.send(request(body=review("new"))),
            )

    before, after, ended, new = asyncio.run(play())
    assert "connection" not in before.headers
    assert (after.status, after.headers["connection"], ended) == (200, "close", True)
    assert (new.status, new.headers["connection"]) == (200, "close")


def test_requests_in_flight_are_finished_and_idle_connections_closed(tmp_path: Path) -> None:
    async def play() -> Response:
        async with serve(tmp_path) as server, server.connect() as busy, server.connect() as silent:
            port = server.listener.port
            await silent.send_request(request(body=review()))
            server.reviews.unblocked.clear()
            server.reviews.started.clear()
            await busy.send(request(body=review("busy")))
            await server.reviews.started.wait()
            closing = asyncio.create_task(server.listener.close(30))
            assert await silent.wait_closed()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            server.reviews.unblocked.set()
            answer = await busy.read_response()
            await closing
            return answer

    assert asyncio.run(play()).json()["response"]["uid"] == "busy"


def test_the_time_for_open_requests_is_bounded(tmp_path: Path) -> None:
    async def play() -> bool:
        async with serve(tmp_path) as server, server.connect() as connection:
            server.reviews.unblocked.clear()
            await connection.send(request(body=review()))
            await server.reviews.started.wait()
            await server.listener.close(0.05)
            return await connection.wait_closed()

    assert asyncio.run(play())
