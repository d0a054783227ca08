"""Finishes or undoes what an interrupted write left behind.

At the start of a term, before the first allocation, the claims are read from the API server, and
every mark without an allocation is removed. This changes the version of the claim, so that an
allocation that an earlier leader sent before it was stopped cannot arrive any more. Until a claim
has another version, the devices in its mark count as held, so that one mark that cannot be removed
does not delay the term. An allocation that was written counts: its pod is scheduled again and finds
it.

Later the same happens to marks whose write no process continues. Claims without a mark are never
written.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

from allocator.writes.claims import WrittenState
from allocator.writes.cluster_writes import ClusterWrites
from allocator.writes.undoing import Undoing
from drawbridge.agreement import allocator_codes as codes
from drawbridge.api_error import ApiError
from drawbridge.dra.claim import CLAIM, Claim
from drawbridge.dra.validation import format_object_name
from drawbridge.finding import Finding
from drawbridge.names import ALLOCATION_ANNOTATION
from drawbridge.process import metrics

_LOG: Final = logging.getLogger("allocator.writes.recovery")
ATTEMPTS: Final = 5
# A write takes seconds, also if the API server is slow.
ABANDONED_SECONDS: Final = 30.0
# Tenants can write marks, and to read this much of them takes some 20 ms. Others run then.
CHARACTERS_AT_ONCE: Final = 128 << 10
# A claim without a mark takes as long as so many characters of one.
_CHARACTERS_OF_CLAIM: Final = 1024


def has_unfinished_mark(claim: Claim) -> bool:
    """Whether a claim has an allocation mark but no allocation."""
    marked = ALLOCATION_ANNOTATION in claim.metadata.annotations
    return marked and claim.status.allocation is None


def describe_unremoved(claim: Claim, problem: str) -> Finding:
    """Report a mark that cannot be removed."""
    path = f"metadata.annotations[{ALLOCATION_ANNOTATION}]"
    name = format_object_name(CLAIM, claim.metadata)
    return codes.MARK_NOT_REMOVED.at(path, f"cannot remove the mark: {problem}", object=name)


class Recovery:
    """Removes unfinished marks. `stop_writes` ends the writes of an earlier term in this process.

    `now` is a monotonic time. `report` is told about each mark that cannot be removed.
    """

    def __init__(
        self,
        state: WrittenState,
        writes: ClusterWrites,
        *,
        stop_writes: Callable[[], None],
        report: Callable[[Finding, Claim], None],
        now: Callable[[], float],
    ) -> None:
        self._state = state
        self._stop_writes = stop_writes
        self._writes = writes
        self._undoing: Undoing[Claim] = Undoing(
            self._remove_mark,
            lambda claim, problem: report(describe_unremoved(claim, problem), claim),
            now,
        )

    @property
    def failing(self) -> int:
        """How many marks could not be removed so far."""
        return self._undoing.failing

    async def begin_term(self) -> None:
        """Prepare for the first allocation; raises if that is not possible now."""
        # A write that was sent before arrives before the list, or has an outdated version. None is
        # sent later, because the reservations are forgotten at once.
        self._stop_writes()
        self._state.begin_term()
        self._undoing.clear()
        unfinished = 0
        # Nothing is allocated before all claims are read.
        async for claim in self._read_claims():
            if has_unfinished_mark(claim):
                self._state.hold_marked(claim)
                self._undoing.add(claim.metadata.uid, claim.metadata.namespace, claim)
                unfinished += 1
        if unfinished:
            # Their pods find free devices if this succeeds before the first allocation.
            await self._undoing.run_turn()
            _LOG.info("found %d unfinished marks of an earlier term", unfinished)

    async def look(self) -> None:
        """Apply all claims as the API server has them, because the watch can be behind."""
        async for _ in self._read_claims():
            pass

    async def _read_claims(self) -> AsyncIterator[Claim]:
        """Yield all claims as the API server has them, once applied; others run in between."""
        characters = 0
        for claim in await self._writes.list_claims():
            self._state.observe_claim(claim)
            yield claim
            mark = claim.metadata.annotations.get(ALLOCATION_ANNOTATION, "")
            characters += _CHARACTERS_OF_CLAIM + len(mark)
            if characters >= CHARACTERS_AT_ONCE:
                characters = 0
                await asyncio.sleep(0)

    async def remove_abandoned_marks(self, claims: Iterable[Claim]) -> bool:
        """Remove marks that no write continues; return whether more can be removed now."""
        for claim in claims:
            if has_unfinished_mark(claim) and not self._is_reserved(claim):
                metadata = claim.metadata
                self._undoing.add(metadata.uid, metadata.namespace, claim, after=ABANDONED_SECONDS)
        return await self._undoing.run_turn()

    async def _remove_mark(self, claim: Claim) -> None:
        """Remove a mark; a claim that changed meanwhile is read again."""
        for attempt in range(1, ATTEMPTS + 1):
            if self._is_reserved(claim):
                return  # a write continues it
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

    def _is_reserved(self, claim: Claim) -> bool:
        return self._state.reservations.is_reserved(claim.metadata.uid)
