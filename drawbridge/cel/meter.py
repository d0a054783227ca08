"""The work of one evaluation in units of our own, so that one expression cannot stop a process.

CEL's cost prices Go and decides what Kubernetes admits. The units here price this engine: a unit
is 50 ns on the machine of the measurements (`python -m bench cel.prices`). The planner adds up the
steps of an expression once, a loop pays for all of its rounds before the first, and a call pays by
the sizes of its arguments before it starts. No price depends on a clock or on a cache, so every
process has the same answer.
"""

from collections.abc import Callable
from typing import Final

from drawbridge.cel import ast
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.frame import WORK, Cancelled, Frame

Price = Callable[..., int]

EXCEEDED: Final = "work_exceeded"
# The most expensive loops that Kubernetes evaluates within its own limit fit.
MOST_WORK: Final = 2_000_000
# One call cannot be interrupted, and may hold the lock of the interpreter.
MOST_WORK_OF_CALL: Final = 150_000
# Of the calls that one compilation folds together, and the size of a result that stays in memory.
MOST_FOLDED: Final = 20_000
LARGEST_FOLDED: Final = 1_000
# Planned parts of one expression, with the fields of each branch of a conditional.
MOST_PARTS: Final = 20_000
# One step of each kind, its errors excluded.
STEPS: Final[dict[type, int]] = {
    ast.Literal: 1,
    ast.Ident: 1,
    ast.Select: 2,
    ast.Call: 3,
    ast.ListLiteral: 8,
    ast.MapLiteral: 20,
    ast.MessageLiteral: 60,
    ast.Comprehension: 10,
}
# In addition: a round of a loop, a step that tests or computes a key, a comparison of any two
# values, each overload of a function for values of unknown types, and a stack of its own.
ROUND: Final = 3
KEY: Final = 16
EQUALITY: Final = 16
OVERLOAD: Final = 10
PRICED: Final = 8  # the computation of a price
STACK: Final = 3_000
# An error that `&&`, `||` or a loop absorbs, and each call that it leaves before.
ABSORBED: Final = 60
_LEFT: Final = 20

MESSAGE: Final = (
    "Drawbridge does not evaluate this expression, because it takes more work than Drawbridge "
    "spends on one; Kubernetes may evaluate it"
)


def exceeded() -> Cancelled:
    """Return the end of an evaluation that takes too much work; nothing absorbs it."""
    return Cancelled(EXCEEDED, MESSAGE)


def too_large() -> EvaluationError:
    """Return the error of an expression that takes too much work to compile."""
    return EvaluationError(EXCEEDED, MESSAGE)


def spend(frame: Frame, amount: int) -> None:
    """Pay for some work before it starts."""
    work = frame[WORK] + amount
    if work > MOST_WORK:
        raise exceeded()
    frame[WORK] = work


def spend_call(frame: Frame, amount: int) -> None:
    """Pay for one call before it starts."""
    check_call(amount)
    spend(frame, amount)


def check_call(amount: int) -> None:
    """End an evaluation in which one call takes too much work."""
    if amount > MOST_WORK_OF_CALL:
        raise exceeded()


def absorb(frame: Frame, error: EvaluationError) -> None:
    """Pay for an error that does not end the evaluation."""
    levels, error.levels = error.levels, 0
    spend(frame, ABSORBED + _LEFT * levels)
