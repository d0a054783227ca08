"""The end has an order: answers close their connection, then no new ones, then the rest."""

import asyncio
from pathlib import Path

import pytest

from tests.runtime.http_client import Answer, request, review
from tests.webhook.server.served import served


def test_while_closing_requests_are_answered_and_told_to_go_elsewhere(tmp_path: Path) -> None:
    async def play() -> tuple[Answer, Answer, bool, Answer]:
        async with served(tmp_path) as house, house.line() as line:
            before = await line.ask(request(body=review("before")))
            house.door.closing = True
            after = await line.ask(request(body=review("after")))
            return before, after, await line.ended(), await house.ask(request(body=review("new")))

    before, after, ended, new = asyncio.run(play())
    assert "connection" not in before.headers
    assert (after.status, after.headers["connection"], ended) == (200, "close", True)
    assert (new.status, new.headers["connection"]) == (200, "close")


def test_requests_in_flight_are_finished_and_silent_connections_ended(tmp_path: Path) -> None:
    async def play() -> Answer:
        async with served(tmp_path) as house, house.line() as busy, house.line() as silent:
            port = house.gate.port
            await silent.ask(request(body=review()))
            house.answering.go.clear()
            house.answering.begun.clear()
            await busy.send(request(body=review("busy")))
            await house.answering.begun.wait()
            closing = asyncio.create_task(house.gate.close(30))
            assert await silent.ended()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            house.answering.go.set()
            answer = await busy.answer()
            await closing
            return answer

    assert asyncio.run(play()).json()["response"]["uid"] == "busy"


def test_the_time_for_what_does_not_end_is_bounded(tmp_path: Path) -> None:
    async def play() -> bool:
        async with served(tmp_path) as house, house.line() as line:
            house.answering.go.clear()
            await line.send(request(body=review()))
            await house.answering.begun.wait()
            await house.gate.close(0.05)
            return await line.ended()

    assert asyncio.run(play())
