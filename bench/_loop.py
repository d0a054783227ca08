"""How long work holds an event loop: a task on the loop that sleeps measures how late it wakes."""

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, NamedTuple

TICK: Final = 0.002


class _Delay(NamedTuple):
    """How late a task woke, and the CPU time of all threads meanwhile."""

    seconds: float
    cpu: float


@contextlib.asynccontextmanager
async def _measure(delays: list[_Delay]) -> AsyncIterator[None]:
    """Record how late a task wakes that sleeps all the time."""

    async def tick() -> None:
        while True:
            before, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(TICK)
            late = time.perf_counter() - before - TICK
            delays.append(_Delay(late, min(late, time.process_time() - used)))

    task = asyncio.create_task(tick())
    try:
        await asyncio.sleep(0.05)
        delays.clear()
        yield
        await asyncio.sleep(0)
    finally:
        task.cancel()


async def measure_loop(
    title: str, work: Callable[[], Awaitable[object]], done: Callable[[], object], wanted: object
) -> None:
    """Print how long the work takes, and for how long it holds the event loop.

    Ends the process unless what is done afterwards is what was wanted: a time of nothing is none.
    """
    delays: list[_Delay] = []
    gc.collect()  # what was built for the row
    async with _measure(delays):
        started = time.perf_counter()
        await work()
        seconds = time.perf_counter() - started
    late = max((each.seconds for each in delays), default=seconds) * 1000
    cpu = max((each.cpu for each in delays), default=seconds) * 1000
    if (what := done()) != wanted:
        raise SystemExit(f"{title}: {what!r:.300} instead of {wanted!r:.300}")
    print(f"{title:44} {seconds:8.2f} s   loop held at most {late:6.1f} ms, CPU {cpu:6.1f} ms")
