"""Lets a copy of the process decide about a pod whose search was cut, and learns what it told."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import NamedTuple, TypeAlias

from allocator.decisions.waiting import WaitingPods
from drawbridge.ledger.planner import Planner
from drawbridge.solver.ahead import Answer, Learnt, Question, Tell

# Decides, tells what is computed, and reads a clock of the processor.
Decide: TypeAlias = Callable[[Tell, Callable[[], float]], None]


class CopyReport(NamedTuple):
    """What a copy told, and why it did not come to its end.

    It reached a limit, of time if it `was_slow`, or it `was_killed` within its limits.
    """

    learnt: AsyncIterator[Learnt]
    reached_limit: bool
    was_slow: bool = False
    was_killed: bool = False


DecideInCopy: TypeAlias = Callable[[Decide], Awaitable[CopyReport]]


async def decide_ahead(
    waiting: WaitingPods,
    planner: Planner,
    uid: str,
    now: float,
    decide_in_copy: DecideInCopy,
) -> bool:
    """Let a copy decide about a pod, and go on with what it told; return whether it was killed.

    What it was asked about a node when it reached a limit has no answer. If there is nothing of
    that kind, the pod itself is given up, until the scheduler asks about it again. But a copy that
    told nothing in time says only that its machine is busy, and another one follows it. So does one
    that was killed, unless that happens again and again.
    """
    lent = planner.lend()
    told = await decide_in_copy(partial(waiting.decide_ahead, uid, now))
    unanswered: Question | None = None
    has_answers = False
    async for message in told.learnt:
        if isinstance(message, Question):
            unanswered = message
        elif isinstance(message, Answer):
            unanswered, has_answers = None, True
        planner.learn(message, lent)
    reached_limit = waiting.note_end(killed=told.was_killed) or told.reached_limit
    if reached_limit and unanswered is not None:
        planner.give_up(unanswered, lent)
    elif reached_limit and not (has_answers or told.was_slow):
        waiting.stop_waking(uid)
    waiting.note_ahead(uid)
    return told.was_killed
