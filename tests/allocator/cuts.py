"""Decides in copies of the process."""

import asyncio

from allocator.copies import decide_in_copy
from allocator.decisions.deciding_ahead import decide_ahead
from allocator.decisions.waiting import WaitingPods
from drawbridge.ledger.planner import Planner


def decide_in_a_copy(waiting: WaitingPods, planner: Planner, uid: str, now: float = 1.0) -> None:
    """Let a copy of this process decide about a pod, and learn from it."""
    asyncio.run(decide_ahead(waiting, planner, uid, now, decide_in_copy))
    waiting.note_copy(uid, 0.0)
