"""Judges reviews in one thread, which owns the judged cluster.

The event loop answers other reviews and follows the watches meanwhile. Namespaces take turns, and
a judgement has as many turns as it needs: it ends early while others wait, and continues where it
was, because the caches keep what it has evaluated. A namespace that used the thread for long comes
last. Time decides when an object is judged, never what is said about it.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

from msgspec.structs import replace

from drawbridge.finding import Finding
from drawbridge.judge.progress import Progress
from drawbridge.process.fair_turns import NOBODY, FairTurns, NoTurnError, TurnKey
from drawbridge.process.review import AdmissionRequest
from drawbridge.solver.memo import OutOfTimeError, end_after_first
from webhook.judging.handler import JudgeBusyError
from webhook.judging.judged_cluster import JudgedCluster, JudgeSettings, PendingChanges
from webhook.judging.reviews import judge_review

T = TypeVar("T")
# The judgements that wait keep their objects in memory.
MAX_WAITING: Final = 64
# Without reviews, changes are applied this often, so that the next review finds the world derived.
APPLY_SECONDS: Final = 2.0
# New work of a judgement in one turn, if others wait. What it did before is read from the caches.
PART_SECONDS: Final = 0.025
# The time of the thread that a namespace may use before it comes last, the part of it that is
# forgotten each second, and the most that is remembered.
BUDGET_SECONDS: Final = 0.1
_FORGOTTEN: Final = 0.1
_MOST_BUDGETS: Final = 10
_MAX_NAMESPACES: Final = 1024
# A thread that is busy for longer is a bug, and other replicas should answer.
STUCK_SECONDS: Final = 60.0


class JudgedView(Protocol):
    """The watches of what is judged with."""

    changes: PendingChanges

    def settings(self) -> JudgeSettings:
        """Return the configuration and the feature gates."""

    def find_doubts(self) -> Iterable[str]:
        """Return the reasons why the devices may be others than the watches show."""


class _ThreadUse:
    """How long namespaces used the thread, each as a network peer names it.

    One thread adds to it, any may ask.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._used: dict[TurnKey, tuple[float, float]] = {}  # budgets, and when

    def add(self, key: TurnKey, seconds: float) -> None:
        """Add time to what a namespace used."""
        used = min(self._budgets(key) + seconds / BUDGET_SECONDS, _MOST_BUDGETS)
        self._used.pop(key, None)
        if len(self._used) >= _MAX_NAMESPACES:
            del self._used[next(iter(self._used))]
        self._used[key] = used, self._now()

    def is_beyond_budget(self, key: TurnKey) -> bool:
        """Return whether a namespace used more than its budget lately."""
        return self._budgets(key) > 1

    def _budgets(self, key: TurnKey) -> float:
        used, since = self._used.get(key, (0.0, 0.0))
        return max(0.0, used - _FORGOTTEN * (self._now() - since))


class JudgeThread:
    """Runs judgements one after the other. Implements `webhook.judging.handler.Judge`."""

    def __init__(
        self,
        cluster: JudgedCluster,
        view: JudgedView,
        max_waiting: int = MAX_WAITING,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._now = now
        self._use = _ThreadUse(now)
        self._turns = FairTurns(max_waiting, self._use.is_beyond_budget)
        self._started: float | None = None
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="judge")

    async def judge(
        self, request: AdmissionRequest, labels: Mapping[str, str], seconds: float, peer: str = ""
    ) -> tuple[Finding, ...]:
        """Return the findings about an object. Raise TimeoutError, or JudgeBusyError."""
        key, progress, is_ended = TurnKey(request.namespace, peer), Progress(), threading.Event()
        findings: tuple[Finding, ...] | None = None
        try:
            async with asyncio.timeout(seconds):
                while findings is None:
                    async with self._turns.take(key):
                        part = self._make_part(
                            request, labels, progress, self._limit_part(key, is_ended)
                        )
                        findings = await self._run(part, key)
        except NoTurnError as error:
            raise JudgeBusyError from error
        finally:
            is_ended.set()
        return findings

    def _make_part(
        self,
        request: AdmissionRequest,
        labels: Mapping[str, str],
        progress: Progress,
        out_of_time: Callable[[], bool],
    ) -> Callable[[], tuple[Finding, ...] | None]:
        """Return the work of one turn: it returns the findings, or None if there is more to do."""
        doubts, settings = tuple(self._view.find_doubts()), self._view.settings()
        self._view.changes.seal()

        def judge_part() -> tuple[Finding, ...] | None:
            self._update(settings)
            context = self._cluster.context(request.namespace, labels, doubts)
            progress.start(context.world, end_after_first(out_of_time))
            context.caches.limit_time(out_of_time)
            try:
                return judge_review(request, replace(context, progress=progress))
            except OutOfTimeError:
                return None
            finally:
                context.caches.limit_time(None)

        return judge_part

    def _limit_part(self, key: TurnKey, is_ended: threading.Event) -> Callable[[], bool]:
        """Return whether a part of a judgement should end: nobody waits for it, or others wait."""
        started: float | None = None

        def is_out_of_time() -> bool:
            nonlocal started
            now = self._now()
            started = now if started is None else started
            is_long = now - started >= PART_SECONDS and self._turns.is_awaited(key)
            return is_long or is_ended.is_set()

        return is_out_of_time

    async def run(self) -> None:
        """Apply changes from time to time until cancelled."""
        try:
            while True:
                await self._run(self._prepare())
                await asyncio.sleep(APPLY_SECONDS)
        finally:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _prepare(self) -> Callable[[], None]:
        """Return the work that lets the next review find everything derived."""
        settings = self._view.settings()
        self._view.changes.seal()

        def prepare() -> None:
            self._update(settings)
            self._cluster.context()

        return prepare

    def find_problem(self) -> str:
        """Return why judgements cannot be made, or an empty string."""
        started = self._started
        if started is None or self._now() - started < STUCK_SECONDS:
            return ""
        return f"one judgement takes more than {STUCK_SECONDS:g} seconds"

    def _update(self, settings: JudgeSettings) -> None:
        """Bring the judged cluster up to date."""
        self._cluster.configure(settings)
        while (batch := self._view.changes.take()) is not None:
            self._cluster.apply(batch)

    async def _run(self, function: Callable[[], T], key: TurnKey = NOBODY) -> T:
        """Run a function in the thread. One that is cancelled before it starts never runs."""
        return await asyncio.wrap_future(self._executor.submit(self._timed, function, key))

    def _timed(self, function: Callable[[], T], key: TurnKey) -> T:
        self._started = started = self._now()
        try:
            return function()
        finally:
            self._started = None
            self._use.add(key, self._now() - started)
