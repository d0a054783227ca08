"""What runs while the kube-scheduler of this host leads: recovery first, then clean-up and looks.

A term starts when the scheduler acquires its Lease. Nothing is allocated before the recovery of the
term has finished. If this process cannot be sure of the Lease for a moment, the term continues,
unless another kube-scheduler held the Lease in between.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from allocator.scheduler.calls import Leadership
from allocator.scheduler.lease import SchedulerLease, Term
from allocator.writes.recovery import Recovery
from drawbridge.api_error import ApiError
from drawbridge.cluster.backoff import Backoff
from drawbridge.cluster.errors import NotLeadingError
from drawbridge.dra.claim import Claim
from drawbridge.process.logs import log_event

_LOG: Final = logging.getLogger("allocator.term")
_CHECK_SECONDS: Final = 0.2
_CLEAN_UP_SECONDS: Final = 5.0
_MAX_PAUSE_SECONDS: Final = 5.0


class Lease(Protocol):
    """The Lease of the kube-scheduler."""

    @property
    def term(self) -> Term | None:
        """The current term; None while another kube-scheduler may lead."""
        ...

    def describe(self) -> str:
        """Say who holds the Lease."""
        ...


class NodesToUse(Protocol):
    """The nodes that are used after a look at all claims."""

    def begin_look(self) -> float | None:
        """Return when a look at all claims begins that makes a node usable; None if none does."""
        ...

    def note_look(self, began: float) -> None:
        """Use the nodes that have settled before a look at all claims."""
        ...


class TermKeeper:
    """Follows the Lease, and recovers at the start of each term."""

    def __init__(  # noqa: PLR0913  # all but three by name
        self,
        lease: Lease,
        recovery: Recovery,
        nodes: NodesToUse,
        *,
        claims: Callable[[], Iterable[Claim]],
        take_back: Callable[[], Awaitable[None]],
        finish_failed_writes: Callable[[], Awaitable[bool]],
        is_ready: Callable[[], bool],
        on_leading: Callable[[], None],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random_fraction: Callable[[], float] = random.random,
    ) -> None:
        self._lease = lease
        self._recovery = recovery
        self._nodes = nodes
        self._claims = claims
        self._take_back = take_back
        self._finish_failed_writes = finish_failed_writes
        self._is_ready = is_ready
        self._on_leading = on_leading
        self._pause = pause
        # A recovery lists all claims, which an API server that is overloaded must not do often.
        self._backoff = Backoff(_CHECK_SECONDS, _MAX_PAUSE_SECONDS, random_fraction=random_fraction)
        self._recovered: Term | None = None
        self._starts = 0
        self.problem = ""

    @property
    def leading(self) -> bool:
        """Whether allocations can be decided and written now."""
        term = self._lease.term
        return term is not None and term == self._recovered

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
        since_clean_up = 0.0
        while True:
            pause = _CHECK_SECONDS
            try:
                await self._recover_if_needed()
                await self._look_if_needed()
                if self.leading:
                    await self._take_back()
                if self.leading and since_clean_up >= _CLEAN_UP_SECONDS:
                    is_unfinished = await self._clean_up()
                    since_clean_up = _CLEAN_UP_SECONDS if is_unfinished else 0.0
                self._backoff.reset()
            except (ApiError, NotLeadingError) as error:
                self.problem = f"{error}"
                _LOG.info("the term cannot be prepared or cleaned up yet: %s", error)
                pause = self._backoff.pause()
            await self._pause(pause)
            since_clean_up += pause

    async def _recover_if_needed(self) -> None:
        term = self._lease.term
        if term is None or term == self._recovered or not self._is_ready():
            return
        starts = self._starts
        await self._recovery.begin_term()
        # The Lease may have changed hands during the recovery.
        if self._lease.term == term and self._starts == starts:
            self._recovered = term
            self.problem = ""
            log_event(_LOG, logging.INFO, "leading", holder=term.holder)
            self._on_leading()

    async def _look_if_needed(self) -> None:
        """Use the nodes whose fence has settled."""
        look = self._nodes.begin_look()
        if look is None:
            return
        # The recovery at the start of a term is a look as well.
        if self._recovered is not None:
            await self._recovery.look()
        self._nodes.note_look(look)

    async def _clean_up(self) -> bool:
        """Undo what earlier writes left behind; return whether more can be undone now."""
        more_writes = await self._finish_failed_writes()
        return await self._recovery.remove_abandoned_marks(self._claims()) or more_writes


_: tuple[type[Leadership], type[Lease]] = (TermKeeper, SchedulerLease)
