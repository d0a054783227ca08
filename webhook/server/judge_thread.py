"""Judges reviews in one thread, which owns the judged cluster.

The event loop answers other reviews and follows the watches meanwhile. Namespaces take turns. A
judgement that the caller no longer waits for still ends: `drawbridge.judge.work` limits its work.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

from drawbridge.finding import Finding
from drawbridge.process.fair_turns import FairTurns, NoTurnError
from drawbridge.process.review import AdmissionRequest
from webhook.judging.handler import JudgeBusyError
from webhook.judging.judged_cluster import JudgedCluster, JudgeSettings, PendingChanges
from webhook.judging.reviews import judge_review

T = TypeVar("T")
# The judgements that wait keep their objects in memory.
MAX_WAITING: Final = 64
# Without reviews, changes are applied this often, so that the next review finds the world derived.
APPLY_SECONDS: Final = 2.0
# A thread that is busy for longer is a bug, and other replicas should answer.
STUCK_SECONDS: Final = 60.0


class JudgedView(Protocol):
    """The watches of what is judged with."""

    changes: PendingChanges

    def settings(self) -> JudgeSettings:
        """Return the configuration and the feature gates."""

    def find_doubts(self) -> Iterable[str]:
        """Return the reasons why the devices may be others than the watches show."""


class JudgeThread:
    """Runs judgements one after the other. Implements `webhook.judging.handler.Judge`."""

    def __init__(
        self,
        cluster: JudgedCluster,
        view: JudgedView,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._turns = FairTurns(max_waiting)
        self._started: float | None = None
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="judge")

    async def judge(
        self, request: AdmissionRequest, labels: Mapping[str, str], seconds: float
    ) -> tuple[Finding, ...]:
        """Return the findings about an object. Raise TimeoutError, or JudgeBusyError."""
        doubts, settings = tuple(self._view.find_doubts()), self._view.settings()
        self._view.changes.seal()

        def judge_object() -> tuple[Finding, ...]:
            self._update(settings)
            context = self._cluster.context(request.namespace, labels, doubts)
            return judge_review(request, context)

        try:
            async with asyncio.timeout(seconds), self._turns.take(request.namespace):
                return await self._run(judge_object)
        except NoTurnError as error:
            raise JudgeBusyError from error

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
        if started is None or time.monotonic() - started < STUCK_SECONDS:
            return ""
        return f"one judgement takes more than {STUCK_SECONDS:g} seconds"

    def _update(self, settings: JudgeSettings) -> None:
        """Bring the judged cluster up to date."""
        self._cluster.configure(settings)
        while (batch := self._view.changes.take()) is not None:
            self._cluster.apply(batch)

    async def _run(self, function: Callable[[], T]) -> T:
        """Run a function in the thread. One that is cancelled before it starts never runs."""
        return await asyncio.wrap_future(self._executor.submit(self._timed, function))

    def _timed(self, function: Callable[[], T]) -> T:
        self._started = time.monotonic()
        try:
            return function()
        finally:
            self._started = None
