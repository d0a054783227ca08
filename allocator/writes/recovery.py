"""Finishes or undoes what an interrupted write left behind.

At the start of a term, before the first allocation, the claims are read from the API server, and
every mark without an allocation is removed. This changes the version of the claim, so that an
allocation that an earlier leader sent before it was stopped cannot arrive any more. An allocation
that was written counts: its pod is scheduled again and finds it.

Later the same happens to marks whose write no process continues. Claims without a mark are never
written.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from allocator.writes.claims import WrittenState
from allocator.writes.cluster_writes import ClusterWrites
from drawbridge.api_error import ApiError
from drawbridge.dra.claim import Claim
from drawbridge.names import ALLOCATION_ANNOTATION
from drawbridge.process import metrics

_LOG: Final = logging.getLogger("allocator.writes.recovery")
ATTEMPTS: Final = 5
# A write takes seconds, also if the API server is slow.
ABANDONED_SECONDS: Final = 30.0
CONCURRENT_WRITES: Final = 32
# A tenant can write marks, so that each run does a bounded number of writes.
MAX_REMOVED_PER_RUN: Final = 64


def has_unfinished_mark(claim: Claim) -> bool:
    """Whether a claim has an allocation mark but no allocation."""
    marked = ALLOCATION_ANNOTATION in claim.metadata.annotations
    return marked and claim.status.allocation is None


class Recovery:
    """Removes unfinished marks. `stop_writes` ends the writes of an earlier term in this process.

    `now` is a monotonic time.
    """

    def __init__(
        self,
        state: WrittenState,
        writes: ClusterWrites,
        *,
        stop_writes: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        self._state = state
        self._stop_writes = stop_writes
        self._writes = writes
        self._now = now
        self._first_seen: dict[str, float] = {}

    async def begin_term(self) -> None:
        """Prepare for the first allocation; raises if that is not possible now."""
        # A write that was sent before arrives before the list, or has an outdated version. None is
        # sent later, because the reservations are forgotten at once.
        self._stop_writes()
        self._state.begin_term()
        claims = await self._writes.list_claims()
        for claim in claims:
            self._state.observe_claim(claim)
        unfinished = [each for each in claims if has_unfinished_mark(each)]
        await self._remove_marks(unfinished)
        if unfinished:
            _LOG.info("removed %d unfinished marks of an earlier term", len(unfinished))

    async def remove_abandoned_marks(self, claims: Iterable[Claim]) -> int:
        """Remove marks without an allocation that no write continues; return their number."""
        now = self._now()
        unfinished = {
            marked.metadata.uid: marked
            for marked in claims
            if has_unfinished_mark(marked)
            and not self._state.reservations.is_reserved(marked.metadata.uid)
        }
        self._first_seen = {uid: self._first_seen.get(uid, now) for uid in unfinished}
        abandoned = [
            claim
            for uid, claim in unfinished.items()
            if now - self._first_seen[uid] >= ABANDONED_SECONDS
        ]
        await self._remove_marks(abandoned[:MAX_REMOVED_PER_RUN])
        return len(abandoned[:MAX_REMOVED_PER_RUN])

    async def _remove_marks(self, claims: Iterable[Claim]) -> None:
        """Remove marks, several at a time, because a tenant can write any number of them."""
        slots = asyncio.Semaphore(CONCURRENT_WRITES)

        async def remove(claim: Claim) -> None:
            async with slots:
                await self._remove_mark(claim)

        results = await asyncio.gather(*map(remove, claims), return_exceptions=True)
        for error in results:
            if error is not None:
                raise error

    async def _remove_mark(self, claim: Claim) -> None:
        """Remove a mark; a claim that changed meanwhile is read again."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._state.observe_claim(await self._writes.unmark(claim))
                metrics.ALLOCATOR_MARKS_REMOVED.inc()
            except ApiError as error:
                if attempt == ATTEMPTS or not (error.changed or error.unknown):
                    raise
                metadata = claim.metadata
                current = await self._writes.read_claim(metadata.namespace, metadata.name)
                if current is None or current.metadata.uid != metadata.uid:
                    return
                self._state.observe_claim(current)
                if not has_unfinished_mark(current):
                    return
                claim = current
            else:
                return
