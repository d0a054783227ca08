"""What runs while the kube-scheduler of this host leads: recovery first, then clean-up and looks.

A term starts when the scheduler acquires its Lease. Nothing is allocated before the recovery of the
term has finished. If this process cannot be sure of the Lease for a moment, the term continues. It
ends when the Lease shows another one, or no holder, and what was reserved in it is forgotten then.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from allocator.scheduler.lease import SchedulerLease, Term
from allocator.state.live_state import LiveState
from allocator.writes.recovery import Recovery
from drawbridge.api_error import ApiError
from drawbridge.cluster.backoff import Backoff
from drawbridge.cluster.errors import NotLeadingError
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.process.logs import log_event

_LOG: Final = logging.getLogger("allocator.term")
_CHECK_SECONDS: Final = 0.2
# How often all claims are searched for marks whose write no process continues.
_SEARCH_SECONDS: Final = 5.0
_MAX_PAUSE_SECONDS: Final = 5.0


class TermKeeper:
    """Follows the Lease, and recovers at the start of each term."""

    def __init__(  # noqa: PLR0913  # all but three by name
        self,
        lease: SchedulerLease,
        recovery: Recovery,
        state: LiveState,
        *,
        on_leading: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._lease = lease
        self._recovery = recovery
        self._state = state
        self._on_leading = on_leading
        self._pause = pause
        # A recovery lists all claims, which an API server that is overloaded must not do often.
        self._backoff = Backoff(_CHECK_SECONDS, _MAX_PAUSE_SECONDS)
        self._begun: Term | None = None  # the last term, unless its end was seen
        self._recovered: Term | None = None
        self._starts = 0
        self.problem = ""
        end = "the term is prepared and cleaned up again after %.0f s"
        self._log = FailureLog(_LOG, end, now)

    @property
    def leading(self) -> bool:
        """Whether allocations can be decided and written now."""
        term = self._lease.term
        return term is not None and term == self._recovered

    @property
    def has_term(self) -> bool:
        """Whether a term goes on, also while it is not sure for a moment that it does."""
        return self._recovered is not None

    def start_again(self) -> None:
        """Recover again before the next allocation."""
        self._recovered = None
        self._starts += 1

    def describe(self) -> str:
        """Say why nothing is allocated."""
        if self._lease.term is None:
            return self._lease.describe()
        return self.problem or "the recovery at the start of the term has not finished"

    async def run(self) -> None:
        """Recover whenever a term starts, and clean up while it lasts, until cancelled."""
        since_search = 0.0
        while True:
            pause = _CHECK_SECONDS
            self._end_if_over()
            self._state.fences.follow_lease()
            try:
                await self._recover_if_needed()
                await self._look_if_needed()
                searches = since_search >= _SEARCH_SECONDS
                since_search = 0.0 if searches else since_search
                if self.leading:
                    await self._recovery.run_turn(searches_marks=searches)
                elif searches:
                    await self._recovery.read_told()
                self._backoff.reset()
                self._log.succeed()
            except (ApiError, NotLeadingError) as error:
                self.problem = f"{error}"
                text = "the term cannot be prepared or cleaned up yet: %s"
                self._log.fail(error, text, error)
                pause = self._backoff.pause()
            await self._pause(pause)
            since_search += pause

    def _end_if_over(self) -> None:
        """Forget what was reserved in a term; its writes that are unfinished are for who leads."""
        if self._begun is not None and self._lease.has_ended(self._begun):
            self._begun = self._recovered = None
            self._recovery.end_term()

    async def _recover_if_needed(self) -> None:
        term = self._lease.term
        if term is None or term == self._recovered:
            return
        if not self._state.ready or self._state.find_problems():
            return
        starts, self._begun = self._starts, term
        await self._recovery.begin_term()
        # The Lease may have changed hands during the recovery.
        if self._lease.term == term and self._starts == starts:
            self._recovered = term
            self.problem = ""
            log_event(_LOG, logging.INFO, "leading", holder=term.holder)
            self._on_leading()

    async def _look_if_needed(self) -> None:
        """Use the nodes whose fence has settled."""
        fences = self._state.fences
        look = fences.begin_look() if self._state.ready else None
        if look is None:
            return
        behind = await self._recovery.find_behind(fences.list_taken_over(look))
        # The recovery at the start of a term is a look at the claims as well.
        if self._recovered is not None:
            await self._recovery.look()
        fences.note_look(look, behind)
