"""The frame of one evaluation, and how what it costs is counted.

A frame is a plain list, because every step of a compiled expression reads and writes it: the cost
so far, what tells whether to stop, the variables, and a slot for each variable of a
comprehension. Costs are counted step by step exactly as cel-go does; where several steps cannot
be told apart from outside they are added at once, and taken apart again only when they pass the
limit.
"""

from collections.abc import Callable, Sequence
from typing import Any

from cel.errors import EvaluationError

# The cost, what tells whether to stop, the variables, the slots.
Frame = list[Any]
Run = Callable[[Frame], object]
CancellationCheck = Callable[[], bool]

COST, STOP, FIRST = 0, 1, 2
LIST_COST, MAP_COST, MESSAGE_COST = 10, 30, 40


class Cancelled(Exception):  # noqa: N818  # no error of the expression, nothing absorbs it
    """The evaluation ends here: too much was spent, or the caller wants no answer any more."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Unset:
    """What an accumulator holds before it is first read, and an argument before it is known."""

    __slots__ = ()


UNSET = Unset()


def exceeded(frame: Frame, limit: int, steps: Sequence[int]) -> None:
    """End an evaluation whose last `steps` passed the limit, at the step that did."""
    cost = frame[COST] - sum(steps)
    for step in steps:
        cost += step
        if cost > limit:
            break
    frame[COST] = cost
    raise Cancelled("cost_exceeded", "operation cancelled: actual cost limit exceeded")


def charge(frame: Frame, limit: int, amount: int) -> None:
    """Count one step."""
    cost = frame[COST] = frame[COST] + amount
    if cost > limit:
        exceeded(frame, limit, (amount,))


def charge_units(frame: Frame, limit: int, count: int) -> None:
    """Count steps of one each."""
    cost = frame[COST] = frame[COST] + count
    if cost > limit:
        exceeded(frame, limit, (1,) * count)


def constant(value: object, steps: tuple[int, ...], limit: int) -> Run:
    """A value that is known; `steps` are what it costs each time."""
    if not steps:
        return lambda frame: value  # noqa: ARG005  # every step takes the frame
    total = sum(steps)

    def run(frame: Frame) -> object:
        cost = frame[COST] = frame[COST] + total
        if cost > limit:
            exceeded(frame, limit, steps)
        return value

    return run


def placed(error: EvaluationError, offset: int) -> EvaluationError:
    """Say where an error arose, unless that is known already."""
    if error.offset < 0:
        error.offset = offset
    return error


def interrupt(frame: Frame) -> None:
    """End the evaluation when the caller wants no answer any more."""
    stop = frame[STOP]
    if stop is not None and stop():
        raise Cancelled("interrupted", "operation interrupted")
