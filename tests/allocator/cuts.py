"""Decides in copies of the process."""

import asyncio

from allocator.copies import COPY_LIMITS, decide_in_copy
from allocator.decisions.deciding_ahead import CopyReport, Decide, decide_ahead
from allocator.decisions.waiting import WaitingPods
from drawbridge.ledger.planner import Planner

# Others can have the processor for long.
LIMITS = COPY_LIMITS._replace(seconds=300.0, nice=0)


def decide_in_a_copy(waiting: WaitingPods, planner: Planner, uid: str, now: float = 1.0) -> None:
    """Let a copy of this process decide about a pod, and learn from it."""

    async def decide(asked: Decide) -> CopyReport:
        return await decide_in_copy(asked, LIMITS)

    asyncio.run(decide_ahead(waiting, planner, uid, now, decide))
    waiting.note_copy(uid, 0.0)
