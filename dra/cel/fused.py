"""The most frequent comparison in one closure: a part of a variable with a constant text.

What is not found, or is no text, goes the exact way, which is made when it is first needed.
"""

from collections.abc import Callable

from dra.cel import calls
from dra.cel.attributes import Attribute
from dra.cel.calls import traversal
from dra.cel.declare import Cost
from dra.cel.frame import COST, Frame, Run, exceeded
from dra.cel.shapes import Step


def equal_to_text(  # noqa: PLR0913, PLR0917  # what a comparison is made of
    left: Step,
    close: Callable[[], Run],
    text: str,
    cost: Cost,
    limit: int,
    offset: int,
    *,
    negated: bool,
) -> Run:
    """`==` and `!=` with a constant text; `close` makes a closure of what is on the left."""

    def exact() -> Run:
        return calls.equal_to_text(close(), text, cost, limit, offset, negated=negated)

    path = left.path() if isinstance(left, Attribute) else None
    if path is None or not isinstance(left, Attribute) or len(path) not in (1, 3):
        return exact()
    done = _compared(text, len(path) + 1, limit, wanted=not negated)
    return _found(left.slot, path, done, exact)


def _compared(text: str, own: int, limit: int, *, wanted: bool) -> Callable[[Frame, str], object]:
    """Compare and charge: `own` for the name and its keys, the rest by the shorter of the texts."""
    longest = len(text)
    costs = [own + traversal(length) for length in range(longest + 1)]

    def done(frame: Frame, value: str) -> object:
        length = len(value)
        amount = costs[length if length < longest else longest]  # noqa: FURB136  # faster
        total = frame[COST] = frame[COST] + amount
        if total > limit:
            exceeded(frame, limit, (*(1,) * own, amount - own))
        return (value == text) is wanted

    return done


def _found(  # house: long, three closures for one look-up
    slot: int,
    path: tuple[str, ...],
    done: Callable[[Frame, str], object],
    exact: Callable[[], Run],
) -> Run:
    slow: list[Run] = []

    def apart(frame: Frame) -> object:
        if not slow:
            slow.append(exact())
        return slow[0](frame)

    def run(frame: Frame) -> object:
        try:
            value = frame[slot][path[0]]
        except (KeyError, TypeError):
            return apart(frame)
        return done(frame, value) if type(value) is str else apart(frame)

    if len(path) == 1:
        return run
    first, second, third = path

    def run_three(frame: Frame) -> object:
        try:
            value = frame[slot][first][second][third]
        except (KeyError, TypeError):
            return apart(frame)
        return done(frame, value) if type(value) is str else apart(frame)

    return run_three
