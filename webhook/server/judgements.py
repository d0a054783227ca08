"""Judges reviews: on the event loop for a short time, and then in a copy of this process.

What takes long is interrupted wherever it is, and a copy judges the object again without being
interrupted. The kernel limits the time and the memory of a copy, there is one at a time, and the
next one is for the namespace whose copies took least time. What it evaluated is kept, so that the
next object like it takes less. Time decides where an object is judged, and whether it is judged at
all, never what is said about it.
"""

import asyncio
import contextlib
import pickle
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from drawbridge.brief import Brief, BriefRuns, CutShort
from drawbridge.finding import Finding
from drawbridge.judge.context import JudgeContext, ToldByCopy
from drawbridge.process.fair_turns import FairTurns, NoTurnError, TurnKey
from drawbridge.process.forked import ForkFailedError, ForkLimits, ForkRefusedError, run_partly
from drawbridge.process.review import AdmissionRequest
from webhook.judging.handler import JudgeBusyError, JudgeLimitError
from webhook.judging.judged_cluster import JudgedCluster, JudgeSettings, PendingChanges
from webhook.judging.reviews import judge_review

# The judgements that wait keep their objects in memory.
MAX_WAITING: Final = 64
# Without reviews, changes are applied this often, so that the next review finds the world derived.
APPLY_SECONDS: Final = 2.0
# The time of a judgement in a namespace whose judgements take long. An ordinary one takes less.
LEAST_SECONDS: Final = 0.005
# The part of the time until the API server gives up in which a copy judges, because what it has
# evaluated by then is kept before the answer.
_PART_OF_COPY: Final = 0.8
COPY_LIMITS: Final = ForkLimits(cpu_seconds=5, more_bytes=256 << 20, result_bytes=16 << 20)
_MAX_TOLD_BYTES: Final = 8 << 20
# Some milliseconds of learning.
_IN_A_ROW: Final = 256


class JudgedView(Protocol):
    """The watches of what is judged with."""

    changes: PendingChanges

    def settings(self) -> JudgeSettings:
        """Return the configuration and the feature gates."""

    def find_doubts(self) -> Iterable[str]:
        """Return the reasons why the devices may be others than the watches show."""


class Judgements:
    """Makes judgements. `brief` interrupts them. Implements `webhook.judging.handler.Judge`."""

    def __init__(  # noqa: PLR0913  # all but three by name
        self,
        cluster: JudgedCluster,
        view: JudgedView,
        brief: Brief,
        *,
        max_waiting: int = MAX_WAITING,
        limits: ForkLimits = COPY_LIMITS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._limits = limits
        self._now = now
        self._turns = FairTurns(max_waiting)
        self._briefs = BriefRuns(brief, now, LEAST_SECONDS)

    async def judge(
        self, request: AdmissionRequest, labels: Mapping[str, str], seconds: float, peer: str = ""
    ) -> tuple[Finding, ...]:
        """Return the findings about an object.

        Raise TimeoutError, JudgeBusyError if too many wait, or JudgeLimitError.
        """
        end = self._now() + seconds
        context = self._find_context(request, labels)
        with contextlib.suppress(CutShort):
            return self._briefs.run(request.namespace, lambda: judge_review(request, context))
        try:
            async with (
                asyncio.timeout(seconds),
                self._turns.take(TurnKey(request.namespace, peer)),
            ):
                left = _PART_OF_COPY * (end - self._now())
                return await self._judge_in_copy(request, labels, left)
        except (NoTurnError, ForkRefusedError) as error:
            raise JudgeBusyError from error

    async def _judge_in_copy(
        self, request: AdmissionRequest, labels: Mapping[str, str], seconds: float
    ) -> tuple[Finding, ...]:
        """Judge an object in a copy of this process, and keep what it evaluated."""
        context = self._find_context(request, labels)
        lent, limits = context.lend(), self._limits._replace(seconds=seconds)
        written = await run_partly(partial(_judge_as_copy, request, context), limits)
        if written.traceback:
            raise ForkFailedError(written.traceback)
        messages = written.messages
        findings = _take_findings(messages)
        for start in range(0, len(messages), _IN_A_ROW):
            told = map(pickle.loads, messages[start : start + _IN_A_ROW])  # our own
            self._find_context(request, labels).learn(told, lent)
            await asyncio.sleep(0)
        if findings is None:
            raise JudgeLimitError(written.limit)
        return findings

    def _find_context(self, request: AdmissionRequest, labels: Mapping[str, str]) -> JudgeContext:
        self._update()
        doubts = tuple(self._view.find_doubts())
        return self._cluster.context(request.namespace, labels, doubts)

    async def run(self) -> None:
        """Apply changes from time to time until cancelled."""
        while True:
            self._update()
            self._cluster.context()
            await asyncio.sleep(APPLY_SECONDS)

    def _update(self) -> None:
        """Bring the judged cluster up to date."""
        self._cluster.configure(self._view.settings())
        self._cluster.apply(self._view.changes.take())


class _Judged(NamedTuple):
    """The last message of a copy. A limit can end the copy between it and its end."""

    findings: tuple[Finding, ...]


def _take_findings(messages: list[bytes]) -> tuple[Finding, ...] | None:
    """Remove the findings from the messages of a copy, if it came to them."""
    last = pickle.loads(messages[-1]) if messages else None  # noqa: S301  # our own
    if not isinstance(last, _Judged):
        return None
    messages.pop()
    return last.findings


def _judge_as_copy(
    request: AdmissionRequest, context: JudgeContext, write: Callable[[bytes], None]
) -> None:
    """Tell what is evaluated, within a bound, and at last the findings."""
    told_bytes = 0

    def tell(told: ToldByCopy) -> None:
        nonlocal told_bytes
        message = pickle.dumps(told)
        told_bytes += len(message)
        if told_bytes <= _MAX_TOLD_BYTES:
            write(message)

    context.caches.become_copy(tell, time.thread_time)
    write(pickle.dumps(_Judged(judge_review(request, context))))
