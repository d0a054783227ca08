"""Clients that hold connections open lose them, and other clients are served."""

import asyncio
import contextlib
import socket
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

from tests.process import http_client
from tests.process.http_client import Connection, Response, request, review
from tests.process.key_pairs import create_client_context
from tests.webhook.server.served import WebhookServer, serve
from webhook.server.http_handler import RequestLimits

HELLO = b"\x16\x03\x01\x02\x00\x01"  # the first bytes of a TLS handshake
HEAD, END = request(body=review()).split(b"\r\n\r\n")


@contextlib.asynccontextmanager
async def hold_handshakes(server: WebhookServer, count: int) -> AsyncIterator[list[Connection]]:
    """Open connections that never continue their TLS handshakes."""
    held = []
    for _ in range(count):
        connection = await asyncio.open_connection("127.0.0.1", server.listener.port)
        held.append(Connection(*connection))
        await held[-1].send(HELLO)
    try:
        yield held
    finally:
        for opened in held:
            opened.writer.close()
            with contextlib.suppress(ConnectionError):
                await opened.writer.wait_closed()


def test_a_client_that_holds_handshakes_loses_the_oldest(tmp_path: Path) -> None:
    async def play() -> tuple[list[bool], Response]:
        async with serve(tmp_path, max_handshakes=3) as server, hold_handshakes(server, 4) as held:
            ended = await held[0].wait_closed()
            answer = await server.send(request(body=review()))
            return [ended, *(each.reader.at_eof() for each in held[2:])], answer

    ended, answer = asyncio.run(play())
    assert (ended, answer.status) == ([True, False, False], 200)


def test_handshakes_that_are_done_do_not_count(tmp_path: Path) -> None:
    async def play() -> list[int]:
        async with (
            serve(tmp_path, max_handshakes=1) as server,
            contextlib.AsyncExitStack() as stack,
        ):
            opened = [await stack.enter_async_context(server.connect()) for _ in range(4)]
            return [(await each.send_request(request(body=review()))).status for each in opened]

    assert asyncio.run(play()) == [200] * 4


def test_as_many_new_connections_at_once_as_an_api_server_opens_are_all_answered(
    tmp_path: Path,
) -> None:
    async def play() -> list[int]:
        async with serve(tmp_path) as server:
            address = ("127.0.0.1", server.listener.port)
            # The server accepts none of them before the last one has been opened.
            waiting = [socket.create_connection(address, timeout=2) for _ in range(200)]
            context = create_client_context(server.pair)

            async def send(opened: socket.socket) -> int:
                opened.setblocking(False)  # noqa: FBT003  # the signature of the socket module
                streams = await asyncio.open_connection(
                    sock=opened, ssl=context, server_hostname=http_client.NAME
                )
                connection = Connection(*streams)
                answer = await connection.send_request(request(body=review()))
                connection.writer.transport.abort()
                return answer.status

            return await asyncio.gather(*map(send, waiting))

    assert asyncio.run(play()) == [200] * 200


def test_a_client_that_sends_bodies_slowly_loses_one_of_them(tmp_path: Path) -> None:
    async def play() -> tuple[Response, Response]:
        async with (
            serve(tmp_path, max_connections=2) as server,
            server.connect() as first,
            server.connect() as second,
        ):
            waits = {}
            for connection in (first, second):
                await connection.send(HEAD + b"\r\n\r\n" + END[:10])
                waits[asyncio.create_task(connection.wait_closed())] = connection
            async with server.connect() as third:
                newest = await third.send_request(request(body=review()))
                _, waiting = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                (kept,) = waiting
                kept.cancel()
                await asyncio.wait(waiting)
                return await waits[kept].send_request(END[10:]), newest

    kept, newest = asyncio.run(play())
    assert (kept.status, newest.status) == (200, 200)


def test_unfinished_bodies_leave_room_for_those_that_arrive_at_once(tmp_path: Path) -> None:
    body = review(padding=30_000)
    limits = RequestLimits(body=100_000, total_bytes=400_000)
    held_head = request(headers={"Content-Length": "100000"})

    async def play() -> list[int]:
        async with (
            serve(tmp_path, limits=limits) as server,
            contextlib.AsyncExitStack() as stack,
        ):
            context = create_client_context(server.pair)
            for number in range(20):
                address = (f"127.0.0.{2 + number % 2}", 0)
                attacker = await stack.enter_async_context(
                    http_client.connect(server.listener.port, context, local=address)
                )
                attacker.writer.write(held_head + b"x" * 95_000)
            innocent = await stack.enter_async_context(server.connect())
            requests = [request(body=body)] * 5
            return [(await innocent.send_request(each)).status for each in requests]

    assert asyncio.run(play()) == [200] * 5


def test_connections_without_a_request_end_before_those_that_are_used(tmp_path: Path) -> None:
    async def play() -> tuple[Response, bool]:
        async with (
            serve(tmp_path, max_connections=2) as server,
            server.connect() as used,
        ):
            await used.send_request(request(body=review()))
            async with server.connect() as unused:
                assert (await unused.send_request(request(path="/"))).status == 404
                loop = asyncio.get_running_loop()
                now = loop.time
                loop.time = lambda: now() + 5  # type: ignore[method-assign]
                async with server.connect() as newest:
                    await newest.send_request(request(body=review()))
                    ended = await unused.wait_closed()
                    return await used.send_request(request(body=review())), ended

    answer, ended = asyncio.run(play())
    assert (answer.status, ended) == (200, True)


def test_a_request_that_has_arrived_is_answered_above_the_limit(tmp_path: Path) -> None:
    async def play() -> tuple[Response, Response]:
        async with serve(tmp_path, max_connections=1) as server, server.connect() as first:
            server.reviews.unblocked.clear()
            await first.send(request(body=review()))
            await server.reviews.wait_for_calls(1)
            async with server.connect() as second:
                await second.send(request(body=review()))
                await server.reviews.wait_for_calls(2)
                server.reviews.unblocked.set()
                return await first.read_response(), await second.read_response()

    first, second = asyncio.run(play())
    assert (first.status, second.status) == (200, 200)


def test_a_held_handshake_allocates_little(tmp_path: Path) -> None:
    async def play() -> int:
        async with serve(tmp_path) as server, hold_handshakes(server, 1):
            before = tracemalloc.get_traced_memory()[0]
            async with hold_handshakes(server, 20):
                await server.send(request(body=review()))
                return (tracemalloc.get_traced_memory()[0] - before) // 20

    tracemalloc.start()
    try:
        assert asyncio.run(play()) < 128 * 1024
    finally:
        tracemalloc.stop()


def test_requests_of_one_address_leave_places_to_another(tmp_path: Path) -> None:
    limits = RequestLimits(in_flight=8)

    async def play() -> list[int]:
        async with serve(tmp_path, limits=limits) as server, contextlib.AsyncExitStack() as stack:
            server.reviews.unblocked.clear()
            context = create_client_context(server.pair)
            attackers = [
                await stack.enter_async_context(
                    http_client.connect(server.listener.port, context, local=("127.0.0.2", 0))
                )
                for _ in range(7)
            ]
            for each in attackers[:6]:
                await each.send(request(body=review()))
            await server.reviews.wait_for_calls(6)
            seventh = await attackers[6].send_request(request(body=review()))
            innocent = await stack.enter_async_context(server.connect())
            await innocent.send(request(body=review()))
            await server.reviews.wait_for_calls(7)
            server.reviews.unblocked.set()
            return [seventh.status, (await innocent.read_response()).status]

    assert asyncio.run(play()) == [429, 200]
