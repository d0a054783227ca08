"""Lets a copy of this process decide about a pod, and tell what it computes."""

import asyncio
import pickle
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

from allocator.decisions.deciding_ahead import CopyReport, Decide
from drawbridge.process.forked import ForkLimits, run_partly
from drawbridge.solver.ahead import Learnt

# What a copy tells counts whatever its end, and the next one goes on behind it.
COPY_LIMITS: Final = ForkLimits(seconds=20.0, cpu_seconds=2, more_bytes=256 << 20, nice=19)


# Some milliseconds of learning.
_IN_A_ROW: Final = 64


class CopyFailedError(Exception):
    """A copy ended with an exception; the text is its traceback."""


async def decide_in_copy(decide: Decide, limits: ForkLimits = COPY_LIMITS) -> CopyReport:
    """Return what a copy of this process tells that decides, by a clock of the processor."""

    def run(write: Callable[[bytes], None]) -> None:
        decide(lambda learnt: write(pickle.dumps(learnt)), time.thread_time)

    written = await run_partly(run, limits)
    if written.traceback:
        raise CopyFailedError(written.traceback)
    reached_limit = bool(written.limit) and not written.was_killed
    return CopyReport(_load(written.messages), reached_limit, written.was_slow, written.was_killed)


async def _load(messages: Iterable[bytes]) -> AsyncIterator[Learnt]:
    """Load what a copy of this process wrote; others have their turns meanwhile."""
    for number, message in enumerate(messages, start=1):
        yield pickle.loads(message)  # noqa: S301  # our own
        if not number % _IN_A_ROW:
            await asyncio.sleep(0)
