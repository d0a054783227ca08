"""The namespaces with a default queue of Kueue, from a watch where Kueue is installed.

Kueue sets the label of its default queue on a pod after our webhook, so admission reads the queues
itself. Kueue may be installed or removed at any time: without it, discovery is asked again and
again. What its CRD does must not stop admission, which goes on without the queues if they cannot be
read: after a restart, no replica would ever be ready while Kueue's conversion webhook is away.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import msgspec

from drawbridge.api_error import ApiError
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.discovery import find_served
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.cluster.resources import LOCAL_QUEUES
from drawbridge.cluster.server_clock import boot_time
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import Accounting
from drawbridge.memory_shares import MemoryShares, keep_whole
from drawbridge.translate.changes.queues import DEFAULT_QUEUE

_LOG: Final = logging.getLogger("drawbridge.webhook.queues")
_PAUSE_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 1.0  # while the API server has not answered
# So long after the first answer of the API server, admission waits for the queues.
KNOWN_SECONDS: Final = 10.0


class _RemovedError(Exception):
    """Kueue, or the version of its API, is not served any more."""


class _QueueObject(msgspec.Struct, frozen=True):
    """A LocalQueue, of which only the name counts."""


class WatchedQueues:
    """The default queues of the namespaces of a cluster."""

    def __init__(
        self,
        session: Session,
        shares: MemoryShares,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = boot_time,
    ) -> None:
        self.cache = Cache(
            session,
            LOCAL_QUEUES,
            _QueueObject,
            fields=f"metadata.name={DEFAULT_QUEUE}",
            keep_raw=False,
            accounting=Accounting(shares, reduce=keep_whole),
            pause=self._pause_cache,
        )
        self._session, self._pause, self._now = session, pause, now
        self.is_served: bool | None = None  # None until the API server has said so
        self._waits_until = math.inf
        end = "it is known again after %.0f s whether Kueue is installed"
        self._log = FailureLog(_LOG, end, now)

    def find(self, namespace: str) -> str:
        """Return the default queue of a namespace; empty without one."""
        is_kept = self.is_served is not False and self.cache.get(DEFAULT_QUEUE, namespace)
        return DEFAULT_QUEUE if is_kept else ""

    def find_missing(self) -> list[str]:
        """Return one line until it is known which namespaces have a queue, for a short time."""
        is_known = self.is_served is False or self.cache.synced or self.cache.refused
        if is_known or self._now() >= self._waits_until:
            return []
        return [f"queues of Kueue are not synced: {self.cache.problem}"]

    def by_resource(self) -> Iterator[tuple[str, Cache[_QueueObject]]]:
        """Return the cache with the name that metrics use, where Kueue is installed."""
        if self.is_served:
            yield LOCAL_QUEUES.plural, self.cache

    async def run(self) -> None:
        """Keep the queues in sync whenever Kueue is installed."""
        while True:
            while not await self._find_kueue():
                is_awaited = self.is_served is None and self._now() < self._waits_until
                await self._pause(_RETRY_SECONDS if is_awaited else _PAUSE_SECONDS)
            with contextlib.suppress(_RemovedError):
                await self.cache.run()

    async def _pause_cache(self, seconds: float) -> None:
        """Pause before the next attempt; raises _RemovedError if there is nothing to read."""
        await self._pause(seconds)
        if self.cache.refused:
            await self._find_kueue()
            if not self.is_served:
                raise _RemovedError

    async def _find_kueue(self) -> bool:
        """Ask whether Kueue is installed; an error says nothing about it."""
        try:
            served = await find_served(self._session, LOCAL_QUEUES, (LOCAL_QUEUES.version,))
        except ApiError as error:
            if error.code:
                self._note_answer()
            self._log.fail(error, "cannot find out whether Kueue is installed: %s", error)
            return False
        self._log.succeed()
        self._note_answer()
        self.is_served = served is not None
        return self.is_served

    def _note_answer(self) -> None:
        self._waits_until = min(self._waits_until, self._now() + KNOWN_SECONDS)
