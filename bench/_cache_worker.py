"""Fills caches for `bench.caches`, in the tree that PYTHONPATH names.

The argument is a folder with the events of each kind of objects: a line for each object, then one
for its change. For each line of standard input with a process and a kind, writes the CPU time of
both parts in nanoseconds. Imports only what trees before have as well.
"""

import asyncio
import contextlib
import gc
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

from allocator.state.caches import AllocatorCaches
from controller.caches import ControllerCaches

# So many arrive at once while a watch tells many.
AT_ONCE: Final = 16
NAMESPACE: Final = "drawbridge-system"
MEMORY_LIMIT: Final = 4 << 30


class _Session:
    """A session whose watch tells events, and notes the CPU time in which each part is read."""

    namespace = NAMESPACE

    def __init__(self, parts: Sequence[Sequence[bytes]]) -> None:
        self._parts = parts
        self.taken: list[int] = []
        self.is_read = asyncio.Event()

    @contextlib.asynccontextmanager
    async def stream(self, *_: object, **__: object) -> AsyncIterator[Any]:
        """Open a watch."""
        yield self._tell()

    async def _tell(self) -> AsyncGenerator[Sequence[bytes], None]:
        for lines in self._parts:
            began = time.process_time_ns()
            for first in range(0, len(lines), AT_ONCE):
                yield lines[first : first + AT_ONCE]
            self.taken.append(time.process_time_ns() - began)
        self.is_read.set()
        await asyncio.Event().wait()


async def _fill(process: str, kind: str, lines: Sequence[bytes]) -> list[int]:
    """Let a cache read a list and a change of each object; return the CPU time of each."""
    middle = len(lines) // 2 + 1  # after the bookmark that ends the list
    session: Any = _Session((lines[:middle], lines[middle:]))
    caches: Any
    if process == "allocator":
        caches = AllocatorCaches(session, NAMESPACE, memory_limit=MEMORY_LIMIT)
    else:
        caches = ControllerCaches(session, None, MEMORY_LIMIT)
    is_of_controller = process == "controller" and kind == "pods"
    cache = caches.device_pods if is_of_controller else getattr(caches, kind)
    running = asyncio.create_task(cache.run())
    reading = asyncio.create_task(session.is_read.wait())
    await asyncio.wait({running, reading}, return_when=asyncio.FIRST_COMPLETED)
    changed = [each for each in cache.all() if int(each.version) >= middle]
    if cache.restarts or cache.too_large or len(changed) != middle - 1:
        raise SystemExit(f"{len(changed)} of {middle - 1} {kind} are read: {cache.problem}")
    running.cancel()
    return list(session.taken)


def main() -> None:
    """Answer until standard input ends."""
    gc.disable()  # what it takes depends on all objects of a process
    for words in sys.stdin:
        process, kind = words.split()
        lines = (Path(sys.argv[1]) / kind).read_bytes().splitlines()
        print(*asyncio.run(_fill(process, kind, lines)), flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
