"""Mends claims on the API server: unfinished marks, and allocations that have to yield.

At the start of a term, before the first allocation, the claims are read from the API server, and
every mark without an allocation is removed. This changes the version of the claim, so that an
allocation that an earlier leader sent before it was stopped cannot arrive any more. Until a claim
has another version, the devices in its mark count as held, so that one mark that cannot be removed
does not delay the term. An allocation that was written counts: its pod is scheduled again and finds
it. Later the same happens to marks whose write no process continues. Claims without a mark are
never written.

Another allocator can give away devices that ours has allocated. Both claims would be prepared, or
the second pod would never start. The other allocator does not look at ours, so ours yields, whoever
wrote first: the claim is deallocated and its pods are tried again, as long as none of them is
bound. What another allocator wrote is never changed. The pod gets other devices, because the ledger
counts those of the other allocator. So a fight ends after one step, unless the other one takes the
next devices as well. Then each step costs an attempt of the scheduler, with its back-off.

After etcd was restored, the scheduler can tell of claims of the history that was lost. Their
versions can be higher than any that comes for hours, so no watch contradicts them: a claim that the
watch does not show for a while is read from the API server, and forgotten if it is not there.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from allocator.state.live_state import LiveState
from allocator.state.reports import about_claim
from allocator.writes.binding import PodBinder
from allocator.writes.claims import BindRefusedError
from allocator.writes.cluster_writes import ClusterWrites
from allocator.writes.undoing import CONCURRENT_WRITES, Unfinished
from drawbridge.agreement import allocator_codes as codes
from drawbridge.api_error import ApiError
from drawbridge.dra.allocation import MAX_CONSUMERS
from drawbridge.dra.claim import Claim
from drawbridge.ledger.holdings import read_holds
from drawbridge.ledger.plugin_holders import find_held_names
from drawbridge.ledger.reduced_claim import reduce_claim
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
# To look at so many takes some 10 ms.
_CLAIMS_AT_ONCE: Final = 10_000
_MARK_PATH: Final = f"metadata.annotations[{ALLOCATION_ANNOTATION}]"


def has_unfinished_mark(claim: Claim) -> bool:
    """Whether a claim has an allocation mark but no allocation."""
    marked = ALLOCATION_ANNOTATION in claim.metadata.annotations
    return marked and claim.status.allocation is None


async def _in_turns(claims: Iterable[Claim]) -> AsyncIterator[Claim]:
    """Yield the claims of this moment; others run in between."""
    for number, claim in enumerate(tuple(claims), 1):
        yield claim
        if number % _CLAIMS_AT_ONCE == 0:
            await asyncio.sleep(0)


class Recovery:
    """Removes unfinished marks and takes back allocations, each with its own back-off."""

    def __init__(self, state: LiveState, writes: ClusterWrites, binder: PodBinder) -> None:
        self._state = state
        self._writes = writes
        self._binder = binder
        self._undoing = binder.undoing

    def end_term(self) -> None:
        """Forget what is reserved, and what is to be undone: the next leader finds the marks."""
        self._binder.end_term()
        self._state.decisions.end_term()

    async def begin_term(self) -> None:
        """Prepare for the first allocation; raises if that is not possible now."""
        # A write that was sent before arrives before the list, or has an outdated version. None is
        # sent later, because the reservations are forgotten at once.
        self._binder.end_term()
        self._state.decisions.begin_term()
        unfinished = 0
        # Nothing is allocated before all claims are read.
        async for claim in self._read_claims():
            if has_unfinished_mark(claim):
                self._state.hold_marked(claim)
                self._undo_mark(claim)
                unfinished += 1
        if unfinished:
            # Their pods find free devices if this succeeds before the first allocation.
            await self._undoing.run_turn()
            _LOG.info("found %d unfinished marks of an earlier term", unfinished)

    async def look(self) -> None:
        """Apply all claims as the API server has them, because the watch can be behind."""
        async for _ in self._read_claims():
            pass

    async def find_behind(self, nodes: Sequence[str]) -> set[str]:
        """Return the nodes with pods whose devices are those of a plugin, and no watch shows it."""
        behind = set[str]()
        for start in range(0, len(nodes), CONCURRENT_WRITES):
            some = nodes[start : start + CONCURRENT_WRITES]
            listed = await asyncio.gather(*map(self._writes.list_pods_on, some))
            for node, pods in zip(some, listed, strict=True):
                holders = filter(find_held_names, pods)
                behind.update(node for each in holders if not self._state.shows(each))
        return behind

    async def _read_claims(self) -> AsyncIterator[Claim]:
        """Yield all claims as the API server has them, once applied; others run in between."""
        characters = 0
        async for claim in self._writes.list_claims():
            self._state.observe_claim(claim)
            yield claim
            mark = claim.metadata.annotations.get(ALLOCATION_ANNOTATION, "")
            characters += _CHARACTERS_OF_CLAIM + len(mark)
            if characters >= CHARACTERS_AT_ONCE:
                characters = 0
                await asyncio.sleep(0)

    async def run_turn(self, *, searches_marks: bool = True) -> None:
        """Undo what is due, for a limited time; marks are searched among all claims."""
        if searches_marks:
            await self._search_claims()
        for contest in self._state.cluster.conflicts.list_contests():
            contested = self._state.cluster.claims.get(contest.ours)
            if contested is not None:
                namespace = contested.metadata.namespace
                about = Unfinished(namespace, contested, self._take_back, self._report_kept)
                self._undoing.add(f"contested {contest.ours}", about)
        await self._undoing.run_turn()

    async def read_told(self) -> None:
        """Read claims again of which only a scheduler has told: nothing is undone without the lead.

        Otherwise conflicts with them would be reported until this process leads again.
        """
        if self._state.ready:
            await self._search_told()
            await self._undoing.run_turn()

    async def _search_claims(self) -> None:
        async for claim in _in_turns(self._state.list_claims()):
            if has_unfinished_mark(claim) and not self._is_reserved(claim):
                self._undo_mark(claim, after=ABANDONED_SECONDS)
        await self._search_told()

    async def _search_told(self) -> None:
        """Have claims read again that the watch does not confirm, each with its own back-off."""
        async for claim in _in_turns(self._state.cluster.claims.values()):
            if not self._is_confirmed(claim):
                uid, namespace = claim.metadata.uid, claim.metadata.namespace
                about = Unfinished(namespace, claim, self._read_again, _note_unread)
                self._undoing.add(f"unwatched {uid}", about, after=ABANDONED_SECONDS)

    def _is_confirmed(self, claim: Claim) -> bool:
        """Whether the watch shows a claim, and no scheduler has told of another version of it."""
        record = self._state.cluster.ledger.claims.get(claim.metadata.uid)
        return self._state.shows(claim) and (record is None or record.is_confirmed)

    async def _read_again(self, claim: Claim) -> None:
        """Read a claim that the watch does not confirm by now, and forget it if it is gone."""
        metadata = claim.metadata
        if self._is_confirmed(claim):
            return
        ledger = self._state.cluster.ledger
        record = ledger.claims.get(metadata.uid)
        current = await self._writes.read_claim(metadata.namespace, metadata.name)
        if record is not None:
            ledger.doubt(record, metadata.uid)
        if current is not None:
            self._state.observe_claim(current)
        kept = self._state.cluster.claims.get(metadata.uid)
        is_gone = current is None or current.metadata.uid != metadata.uid
        if is_gone and kept is not None and not self._state.shows(kept):
            self._state.forget_claim(kept)

    # --- marks ---

    def _undo_mark(self, claim: Claim, after: float = 0.0) -> None:
        metadata = claim.metadata
        # A tenant can mark any number of claims.
        reduced = reduce_claim(claim)
        about = Unfinished(metadata.namespace, reduced, self._remove_mark, self._report_mark)
        self._undoing.add(f"marked {metadata.uid}", about, after=after)

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

    def _report_mark(self, claim: Claim, problem: str) -> None:
        text = f"cannot remove the mark: {problem}"
        self._state.report(about_claim(codes.MARK_NOT_REMOVED, claim, text, _MARK_PATH))

    # --- allocations that have to yield ---

    async def _take_back(self, seen: Claim) -> None:
        """Deallocate a claim, unless a pod of it is bound; its pods are tried again."""
        uid = seen.metadata.uid
        cluster = self._state.cluster
        contest, claim = cluster.conflicts.find_contest(uid), cluster.claims.get(uid)
        if contest is None or claim is None or claim.status.allocation is None:
            return
        message = cluster.conflicts.describe(contest)
        unabridged = cluster.conflicts.describe(contest, unabridged=True)
        pods = [each.uid for each in claim.status.reserved_for if each.is_pod]
        # A claim that is reserved for a group is that of all its members.
        pods = pods or [each.uid for each in self._state.users_of(claim)[:MAX_CONSUMERS]]
        problem = "none of its pods is known"
        self._binder.interrupt(uid)
        for pod in pods:
            reply = await self._binder.release(pod)
            problem = reply.message or "another client uses it, or a pod of it is bound"
        current = self._state.cluster.claims.get(uid)
        if current is not None and current.status.allocation is not None:
            raise BindRefusedError(f"{message}; it is not taken back: {problem}")
        for hold in read_holds(claim.status.allocation):
            if hold.pool == contest.conflict.pool:
                self._state.penalise(hold.device_id)
        metrics.ALLOCATOR_TAKEN_BACK.inc()
        told = about_claim(codes.ALLOCATION_TAKEN_BACK, claim, message, unabridged=unabridged)
        self._state.report(told)
        for pod in pods:
            self._state.wake_at(pod, asyncio.get_running_loop().time())

    def _report_kept(self, claim: Claim, problem: str) -> None:
        self._state.report(about_claim(codes.ALLOCATION_NOT_TAKEN_BACK, claim, problem))


def _note_unread(claim: Claim, problem: str) -> None:
    about = f"{claim.metadata.namespace}/{claim.metadata.name}"
    _LOG.info("claim %s, which no watch shows, cannot be read: %s", about, problem)
