"""Reviews batches of pods for `bench._reviews`, in the tree that PYTHONPATH names.

With the argument `echo`, a handler that reads the uid and responds with a prepared patch does so;
with `counted`, no alarm cuts a review, because valgrind makes each take longer than the limit.
Imports only what trees before have as well. Reads the number of bodies, then each body after its
size, from standard input. Writes the CPU time of the batch in nanoseconds. Calls `os.getloadavg`
around a batch, where callgrind can be told to dump its counters.
"""

import asyncio
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import CoroutineType
from typing import Final

import msgspec

from bench._cluster import make_admission
from drawbridge.config.model import Configuration
from drawbridge.facts.model import ClassFacts, Facts, ResourceFacts
from drawbridge.process import review
from drawbridge.translate.context import TranslationContext, make_context

NUMBER: Final = struct.Struct("!I")
ECHO: Final = "echo"
COUNTED: Final = "counted"
GPU: Final = "gpu.nvidia.com"
_SECONDS: Final = 4.0  # until the API server gives up
_READY: Final = review.compose_allowed([{"op": "add", "path": "/metadata/labels/a", "value": "b"}])


class _Called(msgspec.Struct):
    uid: str


class _Review(msgspec.Struct):
    request: _Called


_REVIEW: Final = msgspec.json.Decoder(_Review)


def context() -> TranslationContext:
    """Return the context of a cluster with one driver and one device plugin."""
    facts = Facts(
        classes=(ClassFacts(GPU, drivers=(GPU,), devices=64),),
        names=(ResourceFacts("nvidia.com/gpu", nodes=8, devices=64, most=8),),
    )
    return make_context(Configuration(), facts)


async def _echo(body: bytes, _: float) -> bytes:
    return review.compose_review(_REVIEW.decode(body).request.uid, _READY)


def _read_batches() -> Iterator[list[bytes]]:
    stream = sys.stdin.buffer
    while count := stream.read(NUMBER.size):
        sizes = (NUMBER.unpack(stream.read(NUMBER.size))[0] for _ in range(*NUMBER.unpack(count)))
        yield [stream.read(size) for size in sizes]


async def _measure(review_pod: Callable[[bytes, float], object], bodies: Sequence[bytes]) -> int:
    os.getloadavg()
    started = time.thread_time_ns()
    for body in bodies:
        reply = review_pod(body, _SECONDS)
        if isinstance(reply, CoroutineType):
            await reply
    taken = time.thread_time_ns() - started
    os.getloadavg()
    return taken


async def _main() -> None:
    if sys.argv[1:] == [COUNTED]:
        signal.setitimer = lambda *_: (0.0, 0.0)
    echo = sys.argv[1:] == [ECHO]
    review_pod = _echo if echo else make_admission(context()).handler.review_pod
    for bodies in _read_batches():
        print(await _measure(review_pod, bodies), flush=True)


if __name__ == "__main__":
    asyncio.run(_main())
