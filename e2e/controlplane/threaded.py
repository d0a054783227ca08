"""What the rig runs in threads of its own: servers with an event loop, and repeated actions."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self


class ThreadedServer:
    """Serves while its `with` block lasts; `_start` and `_stop` run on its loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=type(self).__name__, daemon=True
        )

    async def _start(self) -> None:
        raise NotImplementedError

    async def _stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        await self._stop()
        # Handlers of requests that nobody waits for.
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class ConnectionServer(ThreadedServer):
    """Carries each connection in a task of its own; its end cancels them."""

    def __init__(self) -> None:
        super().__init__()
        self._server: asyncio.Server | None = None
        # The loop keeps no task alive by itself.
        self._open: set[asyncio.Task[None]] = set()

    async def _listen(self) -> asyncio.Server:
        raise NotImplementedError

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    async def _start(self) -> None:
        self._server = await self._listen()

    async def _stop(self) -> None:
        if self._server:
            self._server.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A coroutine would be a task of asyncio.streams, which prints that it was cancelled.
        task = asyncio.get_running_loop().create_task(self._carry_and_close(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _carry_and_close(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.closing(writer):
            await self._carry(reader, writer)


async def until_one_ends(*pumps: Coroutine[Any, Any, None]) -> None:
    """Run both directions of a connection until one of them ends."""
    tasks = [asyncio.create_task(each) for each in pumps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


@contextlib.contextmanager
def repeating(action: Callable[[], object], pause_seconds: float = 0) -> Iterator[None]:
    """Repeat an action in another thread until the context exits; its failure is raised then."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.is_set():
            action()
            ended.wait(pause_seconds)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(repeat)
        try:
            yield
        finally:
            ended.set()
    running.result()
