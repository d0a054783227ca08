"""Cuts computations at a given function call, and decides in copies of the process."""

import asyncio
import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from allocator.alarm import interruptible, is_interruptible
from allocator.copies import decide_in_copy
from allocator.decisions.deciding_ahead import decide_ahead
from allocator.decisions.waiting import WaitingPods
from drawbridge.ledger.planner import Planner
from drawbridge.solver.brief import Brief, CutShort

T = TypeVar("T")


class CutAt(Brief):
    """Cuts each computation at the same call of a function; what is not cut shorter is not cut."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.calls = calls
        self.cuts = 0

    def run(self, compute: Callable[[], T]) -> T:
        """Return what a function returns; raises CutShort."""
        left = self.calls

        def trace(frame: FrameType, _event: str, _argument: object) -> None:
            nonlocal left
            left -= 1
            if left < 0 and is_interruptible(frame):
                raise CutShort

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            return interruptible(compute)
        except CutShort:
            self.cuts += 1
            raise
        finally:
            sys.settrace(before)


def decide_in_a_copy(waiting: WaitingPods, planner: Planner, uid: str, now: float = 1.0) -> None:
    """Let a copy of this process decide about a pod, and learn from it."""
    asyncio.run(decide_ahead(waiting, planner, uid, now, decide_in_copy))
