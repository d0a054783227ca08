"""The frame of one evaluation, and how it counts the cost.

A frame is a plain list, because every step of a compiled expression reads and writes it: the cost
so far, the work so far (`drawbridge.cel.meter`), the variables, and a slot for each comprehension
variable. Costs are counted step by step exactly as in cel-go. Several steps are added at once if no
caller can observe the difference; if they exceed the limit, the exact step is computed.
"""

from collections.abc import Callable, Sequence
from typing import Any

from drawbridge.cel.errors import EvaluationError

# The cost, the work, the variables, the slots.
Frame = list[Any]
Run = Callable[[Frame], object]

COST, WORK, FIRST = 0, 1, 2
# Of one evaluation, as in Kubernetes.
COST_LIMIT = 1_000_000
LIST_COST, MAP_COST, MESSAGE_COST = 10, 30, 40


class Cancelled(Exception):  # noqa: N818  # no error of the expression, nothing absorbs it
    """The evaluation is cancelled, because it exceeds a limit."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Unset:
    """The value of an accumulator before its first read, and of an unknown argument."""

    __slots__ = ()


UNSET = Unset()


def cancel_over_limit(frame: Frame, steps: Sequence[int]) -> None:
    """Cancel an evaluation at the one of the last `steps` that exceeds the limit."""
    cost = frame[COST] - sum(steps)
    for step in steps:
        cost += step
        if cost > COST_LIMIT:
            break
    frame[COST] = cost
    raise Cancelled("cost_exceeded", "operation cancelled: actual cost limit exceeded")


def charge(frame: Frame, amount: int) -> None:
    """Charge one step."""
    cost = frame[COST] = frame[COST] + amount
    if cost > COST_LIMIT:
        cancel_over_limit(frame, (amount,))


def charge_units(frame: Frame, count: int) -> None:
    """Charge steps of 1 each."""
    cost = frame[COST] = frame[COST] + count
    if cost > COST_LIMIT:
        cancel_over_limit(frame, (1,) * count)


def constant(value: object, steps: tuple[int, ...]) -> Run:
    """Return the closure of a known value; each evaluation charges `steps`."""
    if not steps:
        return lambda frame: value  # noqa: ARG005  # every step takes the frame
    total = sum(steps)

    def run(frame: Frame) -> object:
        cost = frame[COST] = frame[COST] + total
        if cost > COST_LIMIT:
            cancel_over_limit(frame, steps)
        return value

    return run


def with_offset(error: EvaluationError, offset: int) -> EvaluationError:
    """Set the offset of an error unless it has one, and count the call that it leaves."""
    error.levels += 1
    if error.offset < 0:
        error.offset = offset
    return error
