"""The slots for concurrent writes: some for each namespace, and twice as many for all together."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from heapq import heappop, heappush

from allocator.writes.undoing import CONCURRENT_WRITES

WriteSlot = Callable[[], AbstractAsyncContextManager[None]]


class WriteSlots:
    """Slots for single writes, because the API server is the bottleneck of a burst.

    The namespace that has the fewest is first, and in it the pod that came first. So pods that have
    begun end before others begin, however long a write takes.
    """

    def __init__(self) -> None:
        self._pods = itertools.count()
        self._writing = Counter[str]()
        self._waiting: dict[str, list[tuple[int, asyncio.Future[None]]]] = {}

    def queue(self, namespace: str) -> WriteSlot:
        """Let a pod come; return the slot in which it does one write at a time.

        Nobody who has a slot waits for a lock.
        """
        return partial(self._take, namespace, next(self._pods))

    @asynccontextmanager
    async def _take(self, namespace: str, pod: int) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        granted = loop.create_future()
        heappush(self._waiting.setdefault(namespace, []), (pod, granted))
        loop.call_soon(self._grant)
        try:
            await granted
            yield
        finally:
            if not granted.cancelled():
                self._writing -= Counter((namespace,))
                # By then, this pod waits for the slot of its next write.
                loop.call_soon(self._grant)

    def _grant(self) -> None:
        while self._writing.total() < 2 * CONCURRENT_WRITES:
            heads = [
                (self._writing[namespace], waiting[0][0], namespace)
                for namespace, waiting in self._waiting.items()
                if self._writing[namespace] < CONCURRENT_WRITES
            ]
            if not heads:
                break
            namespace = min(heads)[-1]
            _, granted = heappop(self._waiting[namespace])
            if not self._waiting[namespace]:
                del self._waiting[namespace]
            if not granted.cancelled():
                granted.set_result(None)
                self._writing[namespace] += 1
