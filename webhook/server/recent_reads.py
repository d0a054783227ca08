"""Read objects that no watch shows, with one request for concurrent callers."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from drawbridge.api_error import ApiError
from drawbridge.bounded_cache import BoundedCache
from drawbridge.cluster.failure_log import FailureLog

T = TypeVar("T")
_LOG: Final = logging.getLogger("webhook.server.recent_reads")
# What was read is read again after this time. A watch shows a change long before, if there is one.
TRUSTED_SECONDS: Final = 5.0
MAX_REQUESTS: Final = 32
MAX_ENTRIES: Final = 1024


class RecentReads(Generic[T]):
    """Reads objects of one kind by name, and keeps what it reads for a short time.

    `read` returns None for an object that does not exist, and raises API errors. `what` is the kind
    in the log.
    """

    def __init__(self, read: Callable[[str], Awaitable[T | None]], what: str) -> None:
        self._read = read
        self._what = what
        self._values: BoundedCache[str, T] = BoundedCache(MAX_ENTRIES)
        self._requests: dict[str, asyncio.Task[T | None]] = {}
        self._log = FailureLog(_LOG, f"{what}s can be read again after %.0f s")

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: str) -> T | None:
        """Return what was read a short time ago, or None."""
        return self._values.get(name, time.monotonic())

    def forget(self, name: str) -> None:
        """Forget what was read, because a watch shows a change."""
        self._values.pop(name)

    async def read(self, name: str, seconds: float) -> T | None:
        """Read an object, or return None after the given time."""
        task = self._requests.get(name)
        if task is None:
            if len(self._requests) >= MAX_REQUESTS:
                return None
            task = asyncio.create_task(self._request(name))
            self._requests[name] = task
            task.add_done_callback(lambda _: self._requests.pop(name, None))
        # A caller that times out does not cancel the request of the others.
        done, _ = await asyncio.wait((task,), timeout=seconds)
        return task.result() if done else None

    async def _request(self, name: str) -> T | None:
        try:
            value = await self._read(name)
        except ApiError as error:
            text, about = f"a {self._what} cannot be read", {self._what: name}
            self._log.fail(error, text, level=logging.WARNING, reason=f"{error}", **about)
            return None
        self._log.succeed()
        if value is not None:
            self._values.put(name, value, until=time.monotonic() + TRUSTED_SECONDS)
        return value
