"""Read namespaces that the watch does not show yet, with one request for concurrent callers."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from drawbridge.api_error import ApiError
from drawbridge.bounded_cache import BoundedCache
from drawbridge.cluster.failure_log import FailureLog

_LOG: Final = logging.getLogger("webhook.server.namespace_reads")
# The watch shows a change long before. A namespace without a watch is read again after this time.
TRUSTED_SECONDS: Final = 5.0
MAX_REQUESTS: Final = 32
MAX_ENTRIES: Final = 1024

Labels = Mapping[str, str]
# Reads the labels of a namespace; None if it does not exist. Raises API errors.
ReadLabels = Callable[[str], Awaitable[Labels | None]]


class NamespaceReads:
    """Reads labels of namespaces, and keeps them until the watch shows the namespace."""

    def __init__(self, read: ReadLabels) -> None:
        self._read = read
        self._labels: BoundedCache[str, Labels] = BoundedCache(MAX_ENTRIES)
        self._requests: dict[str, asyncio.Task[Labels | None]] = {}
        self._log = FailureLog(_LOG, "namespaces can be read again after %.0f s")

    def __len__(self) -> int:
        return len(self._labels)

    def get(self, name: str) -> Labels | None:
        """Return the labels that were read a short time ago, or None."""
        return self._labels.get(name, time.monotonic())

    def forget(self, name: str) -> None:
        """Forget what was read, because the watch shows a change of the namespace."""
        self._labels.pop(name)

    async def read(self, name: str, seconds: float) -> Labels | None:
        """Read the labels of a namespace, or return None after the given time."""
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

    async def _request(self, name: str) -> Labels | None:
        try:
            labels = await self._read(name)
        except ApiError as error:
            text, level, reason = "a namespace cannot be read", logging.WARNING, f"{error}"
            self._log.fail(error, text, level=level, namespace=name, reason=reason)
            return None
        self._log.succeed()
        if labels is not None:
            self._labels.put(name, labels, until=time.monotonic() + TRUSTED_SECONDS)
        return labels
