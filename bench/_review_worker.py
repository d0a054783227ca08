"""Reviews batches of pods for `bench.reviews`, in the tree that PYTHONPATH names.

Reads the number of bodies, then each body after its size, from standard input. Writes the CPU time
of the batch in nanoseconds. Calls `os.getloadavg` around a batch, where callgrind can be told to
dump its counters.
"""

import asyncio
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import CoroutineType

from bench.webhook_inprocess import make_review_function

NUMBER = struct.Struct("!I")


def _read_batches() -> Iterator[list[bytes]]:
    stream = sys.stdin.buffer
    while count := stream.read(NUMBER.size):
        sizes = (NUMBER.unpack(stream.read(NUMBER.size))[0] for _ in range(*NUMBER.unpack(count)))
        yield [stream.read(size) for size in sizes]


async def _measure(review: Callable[[bytes], object], bodies: Sequence[bytes]) -> int:
    os.getloadavg()
    started = time.thread_time_ns()
    for body in bodies:
        reply = review(body)
        if isinstance(reply, CoroutineType):
            await reply
    taken = time.thread_time_ns() - started
    os.getloadavg()
    return taken


async def _main() -> None:
    review = make_review_function()
    for bodies in _read_batches():
        print(await _measure(review, bodies), flush=True)


if __name__ == "__main__":
    asyncio.run(_main())
