"""The namespaces with a default queue of Kueue, from a watch where Kueue is installed.

Kueue sets the label of its default queue on a pod after our webhook, so admission reads the queues
itself. Kueue may be installed at any time: until then, discovery is asked again and again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from drawbridge.api_error import ApiError
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.discovery import find_served
from drawbridge.cluster.errors import level_of
from drawbridge.cluster.resources import LOCAL_QUEUES
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import Accounting
from drawbridge.memory_shares import MemoryShares, keep_whole
from drawbridge.translate.changes.queues import DEFAULT_QUEUE

_LOG: Final = logging.getLogger("drawbridge.webhook.queues")
_PAUSE_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 1.0  # while the API server has not answered: the process is not ready


class _QueueObject(msgspec.Struct, frozen=True):
    """A LocalQueue, of which only the name counts."""


class WatchedQueues:
    """The default queues of the namespaces of a cluster."""

    def __init__(
        self,
        session: Session,
        shares: MemoryShares,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.cache = Cache(
            session,
            LOCAL_QUEUES,
            _QueueObject,
            fields=f"metadata.name={DEFAULT_QUEUE}",
            keep_raw=False,
            accounting=Accounting(shares, reduce=keep_whole, measure_kept=True),
        )
        self._session, self._pause = session, pause
        self._is_served: bool | None = None  # None until the API server has said so

    def find(self, namespace: str) -> str:
        """Return the default queue of a namespace; empty without one."""
        return DEFAULT_QUEUE if self.cache.get(DEFAULT_QUEUE, namespace) else ""

    def find_missing(self) -> list[str]:
        """Return one line until it is known which namespaces have a queue."""
        if self._is_served is False or self.cache.synced:
            return []
        return [f"queues of Kueue are not synced: {self.cache.problem}"]

    async def run(self) -> None:
        """Wait until Kueue is installed, and then keep its queues in sync."""
        while not await self._find_kueue():
            await self._pause(_RETRY_SECONDS if self._is_served is None else _PAUSE_SECONDS)
        await self.cache.run()

    async def _find_kueue(self) -> bool:
        """Ask whether Kueue is installed; an error says nothing about it."""
        try:
            served = await find_served(self._session, LOCAL_QUEUES, (LOCAL_QUEUES.version,))
        except ApiError as error:
            _LOG.log(level_of(error), "cannot find out whether Kueue is installed: %s", error)
            return False
        self._is_served = served is not None
        return self._is_served
