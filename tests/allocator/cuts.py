"""Decides in copies of the process."""

import asyncio

from allocator.copies import COPY_LIMITS, decide_in_copy
from allocator.decisions.deciding_ahead import CopyReport, Decide, decide_ahead
from allocator.decisions.waiting import WaitingPods
from drawbridge.ledger.planner import Planner
from drawbridge.solver.ahead import Question

# Others can have the processor for long.
LIMITS = COPY_LIMITS._replace(seconds=300.0, nice=0)


def decide_in_a_copy(waiting: WaitingPods, planner: Planner, uid: str, now: float = 1.0) -> None:
    """Let a copy of this process decide about a pod, and learn from it."""

    async def decide(asked: Decide) -> CopyReport:
        return await decide_in_copy(asked, LIMITS)

    asyncio.run(decide_ahead(waiting, planner, uid, now, decide))
    waiting.note_copy(uid, 0.0)


def answers_ahead(planner: Planner) -> list[Question]:
    """Return the questions whose answers a copy told a planner."""
    ahead = planner._memo.ahead  # noqa: SLF001  # nothing else asks for all answers
    return [asked for answers in ahead.values() for asked, _ in answers.items()]
