"""Bodies that are arriving, on a virtual clock: which are read, wait, or are refused."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol

from drawbridge.process.network_peers import OVERDUE_SECONDS
from drawbridge.process.request_bodies import RejectedRequestError, RequestBodies

# A quarter of the memory, 1,000 bytes, is for what arrives, and another one for its peers.
MOST, TOTAL = 1000, 4000
API_SERVER = "10.0.0.1"


class Clients:
    """Clients whose bodies are read, at a time that tests set."""

    def __init__(self, most: int = MOST, total: int = TOTAL) -> None:
        self.now = 0.0
        self.bodies = RequestBodies(most, total, 3600, lambda: self.now)
        self._streams: dict[str, StreamReader] = {}
        self._tasks: dict[str, asyncio.Task[bytes]] = {}

    async def send(
        self,
        name: str,
        peer: str,
        size: int,
        *,
        ends: bool = False,
        length: int | None = None,
        seconds: float = 3600,
    ) -> None:
        """Send bytes of a body, which begins with them; `length` is what its header says."""
        loop = asyncio.get_running_loop()
        stream = StreamReader(Mock(spec=BaseProtocol, _reading_paused=False), 1 << 20, loop=loop)
        request: Any = SimpleNamespace(
            content=stream, content_length=length, headers={}, remote=peer
        )
        self._streams[name] = stream
        self._tasks[name] = asyncio.create_task(self.bodies.read(request, seconds))
        await self.settle()
        stream.feed_data(b"x" * size)
        if ends:
            stream.feed_eof()
        await self.settle()

    def send_more(self, name: str, size: int) -> None:
        """Send more bytes of a body. Its reader has them in the next turn of the event loop."""
        self._streams[name].feed_data(b"x" * size)

    def finish(self, name: str) -> None:
        """Send the end of a body."""
        self._streams[name].feed_eof()

    async def settle(self) -> None:
        """Let the readers run until they wait."""
        for _ in range(10):
            await asyncio.sleep(0)

    def state(self, name: str) -> str | int:
        """How many bytes were read of a body, or that it waits or was refused."""
        task = self._tasks[name]
        if not task.done():
            return "arrives"
        error = task.exception()
        if error is None:
            return len(task.result())
        assert isinstance(error, RejectedRequestError)
        return error.status

    async def end(self) -> None:
        """End all readers."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


def test_a_small_body_is_read_although_its_peer_holds_the_memory() -> None:
    async def play() -> str | int:
        clients = Clients()
        await play_full(clients, 1)
        await clients.send("small", "10.1.0.0", 100, ends=True, length=100)
        result = clients.state("small")
        await clients.end()
        return result

    assert asyncio.run(play()) == 100


def test_a_peer_does_not_hold_all_memory_for_bodies_that_are_handled() -> None:
    bodies = RequestBodies(1 << 20, 4 << 20, 3600)
    large, half = bytes(1 << 20), bytes(1 << 17)
    bodies.hold("attacker", large)
    with pytest.raises(RejectedRequestError):
        bodies.check_room("attacker", large)
    bodies.check_room(API_SERVER, half)
    bodies.let_go("attacker", large)
    bodies.check_room(API_SERVER, large)


async def play_full(clients: Clients, peers: int) -> None:
    """Let peers fill the memory for bodies that are arriving."""
    for number in range(10):
        await clients.send(f"held-{number}", f"10.1.0.{number % peers}", 100)


async def play_full_beside(clients: Clients, seconds: float) -> None:
    """Let one peer fill the memory with a body that arrives within `seconds`, and a younger one."""
    await clients.send("oldest", "10.1.0.0", 1, seconds=seconds)
    clients.now += 1
    await clients.send("younger", "10.1.0.0", MOST - 1)


@pytest.mark.parametrize(
    ("seconds", "peer", "size", "state"),
    [
        pytest.param(0.0, API_SERVER, 100, 100, id="a peer with little is read at once"),
        pytest.param(0.0, "10.1.0.0", 100, "arrives", id="a peer with much waits"),
        pytest.param(OVERDUE_SECONDS + 1, "10.1.0.0", 100, 100, id="until others are overdue"),
        pytest.param(OVERDUE_SECONDS + 1, API_SERVER, 999, 999, id="and so does everybody"),
    ],
)
def test_a_body_is_read_although_others_hold_the_memory(
    seconds: float, peer: str, size: int, state: str | int
) -> None:
    async def play() -> str | int:
        clients = Clients()
        await play_full(clients, 2)
        clients.now += seconds
        await clients.send("next", peer, size, ends=True)
        result = clients.state("next")
        await clients.end()
        return result

    assert asyncio.run(play()) == state


def test_of_the_bodies_that_are_overdue_as_few_as_needed_are_refused() -> None:
    async def play() -> list[str | int]:
        clients = Clients()
        await play_full(clients, 2)
        clients.now += OVERDUE_SECONDS + 1
        await clients.send("next", "10.1.0.0", 100, ends=True)
        states = [clients.state(f"held-{number}") for number in range(10)]
        await clients.end()
        return states

    assert asyncio.run(play()) == [429, *["arrives"] * 9]


def test_a_body_that_waits_is_read_when_another_one_has_arrived() -> None:
    async def play() -> tuple[str | int, str | int]:
        clients = Clients()
        await play_full(clients, 1)
        await clients.send("next", "10.1.0.0", 100, ends=True)
        before = clients.state("next")
        clients.finish("held-3")
        await clients.settle()
        states = before, clients.state("next")
        await clients.end()
        return states

    assert asyncio.run(play()) == ("arrives", 100)


def test_what_arrives_of_a_body_when_it_is_refused_is_not_counted() -> None:
    async def play() -> list[str | int]:
        clients = Clients()
        await play_full_beside(clients, 3600)
        clients.now += OVERDUE_SECONDS
        asyncio.get_running_loop().call_soon(clients.send_more, "oldest", MOST - 2)
        await clients.send("next", "10.1.0.0", 1, ends=True)
        states = [clients.state("oldest"), clients.state("next")]
        await clients.end()
        # All of the memory is there again.
        await clients.send("first", "10.1.0.0", 2)
        await clients.send("second", "10.1.0.0", MOST, ends=True)
        states.append(clients.state("second"))
        await clients.end()
        return states

    assert asyncio.run(play()) == [429, 1, MOST]


def test_a_body_is_refused_at_the_moment_at_which_its_time_is_over() -> None:
    async def play() -> list[str | int]:
        clients, loop = Clients(), asyncio.get_running_loop()
        await play_full_beside(clients, OVERDUE_SECONDS + 1)
        clients.now += OVERDUE_SECONDS
        now = loop.time
        # "younger" looks for overdue bodies before "oldest" ends, in one turn of the event loop.
        loop.time = lambda: now() + OVERDUE_SECONDS + 1  # type: ignore[method-assign]
        await clients.settle()
        states = [clients.state("oldest"), clients.state("younger")]
        await clients.end()
        return states

    assert asyncio.run(play()) == [429, "arrives"]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((100,), id="it arrives at once"),
        pytest.param((100, 100), id="larger ones have their turns apart"),
    ],
)
def test_many_large_bodies_of_its_peer_do_not_delay_a_body(parts: tuple[int, ...]) -> None:
    async def play() -> str | int:
        clients = Clients(1 << 20, 4 << 20)
        for number in range(100):
            await clients.send(f"large-{number}", API_SERVER, 1000)
        for number in range(100):
            clients.send_more(f"large-{number}", 1000)
        # Ten turns of the event loop for each part.
        await clients.send("body", API_SERVER, parts[0], ends=len(parts) == 1)
        for size in parts[1:]:
            clients.send_more("body", size)
            clients.finish("body")
            await clients.settle()
        state = clients.state("body")
        await clients.end()
        return state

    assert asyncio.run(play()) == sum(parts)


def test_nothing_is_counted_after_the_end() -> None:
    async def play() -> list[str | int]:
        clients = Clients()
        await play_full(clients, 2)
        clients.now += OVERDUE_SECONDS + 1
        await clients.send("next", "10.1.0.0", 100, ends=True)
        await clients.end()
        # All of the memory is there again.
        await clients.send("first", "10.1.0.0", MOST, ends=True)
        await clients.send("second", "10.1.0.0", MOST, ends=True)
        return [clients.state("first"), clients.state("second")]

    assert asyncio.run(play()) == [MOST, MOST]
