"""Plans comprehensions, the expansions of the iterating macros and of `cel.bind`.

As in cel-go, the first read of the accumulator evaluates its initial value. An error in the
accumulator is carried on, because a later step may absorb it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import length_hint
from typing import Any

from drawbridge.cel.calls import NO_OVERLOAD
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.frame import (
    COST,
    COST_LIMIT,
    UNSET,
    WORK,
    Frame,
    Run,
    cancel_over_limit,
    charge,
    charge_units,
    with_offset,
)
from drawbridge.cel.meter import MOST_WORK, absorb, exceeded
from drawbridge.cel.values import Map, find, iterate

ListEntries = Callable[[object], Iterable[Any]]


@dataclass(slots=True)
class Fold:
    """The compiled parts of a comprehension, and the work of one round."""

    offset: int
    work: int
    source: Run
    variable: int
    second: int
    accumulator: int
    condition: Run | None
    step: Run
    result: Run


def accumulated(slot: int, initial: Run) -> Run:
    """Read an accumulator; the first read evaluates and charges its initial value."""

    def run(frame: Frame) -> object:
        value = frame[slot]
        if value is UNSET:
            try:
                value = initial(frame)
            except EvaluationError as error:
                value = error
            frame[slot] = value
        if type(value) is EvaluationError:
            raise value
        return value

    return run


def fold(parts: Fold) -> Run:
    """Plan a comprehension with one or two variables.

    The work of all rounds is paid before the first one; a loop that ends early gets some back.
    """
    source, result, condition, step = parts.source, parts.result, parts.condition, parts.step
    variable, second, accumulator = parts.variable, parts.second, parts.accumulator
    entries: ListEntries = pairs if second >= 0 else iterate
    offset, work = parts.offset, parts.work

    def run(frame: Frame) -> object:
        try:
            value = source(frame)
            rounds = iter(value if type(value) is list and second < 0 else entries(value))
        except EvaluationError as error:
            raise with_offset(error, offset) from None
        total = frame[WORK] + len(value) * work  # type: ignore[arg-type]
        if total > MOST_WORK:
            raise exceeded()
        frame[WORK] = total
        frame[accumulator] = UNSET
        for element in rounds:
            if second >= 0:
                frame[variable], frame[second] = element
            else:
                frame[variable] = element
            if condition is not None and not _goes_on(condition, frame):
                frame[WORK] -= length_hint(rounds) * work
                break
            try:
                frame[accumulator] = step(frame)
            except EvaluationError as error:
                absorb(frame, error)
                frame[accumulator] = error
        return result(frame)

    return run


def bind(accumulator: int, result: Run) -> Run:
    """Plan a comprehension over an empty range, which is the expansion of `cel.bind`."""

    def run(frame: Frame) -> object:
        frame[accumulator] = UNSET
        return result(frame)

    return run


def _goes_on(condition: Run, frame: Frame) -> bool:
    try:
        return condition(frame) is not False
    except EvaluationError as error:
        absorb(frame, error)
        return True


def pairs(value: object) -> Iterable[tuple[object, object]]:
    """Return the pairs of a two-variable comprehension: index and element, or key and value."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, Map):
        return [(key, find(value, key)) for key in value.keys()]  # noqa: SIM118  # no dict
    return enumerate(iterate(value))


def quantified(  # noqa: C901  # one loop is what makes it fast
    parts: Fold, predicate: Run, *, decides: bool
) -> Run:
    """Plan `exists` (`decides` is True) and `all` (False) as one loop.

    Charges the same as the general form: `@not_strictly_false(!result)` costs 3 per iteration and
    `@not_strictly_false(result)` costs 2. The step reads the accumulator for 1; the result costs 1.
    """
    source, variable, second, offset = parts.source, parts.variable, parts.second, parts.offset
    work = parts.work
    entries: ListEntries = pairs if second >= 0 else iterate
    otherwise, before = not decides, 3 if decides else 2
    units = before + 1

    def run(frame: Frame) -> object:  # one loop with the charges
        try:
            value = source(frame)
            rounds = iter(value if type(value) is list and second < 0 else entries(value))
        except EvaluationError as error:
            raise with_offset(error, offset) from None
        total = frame[WORK] + len(value) * work  # type: ignore[arg-type]
        if total > MOST_WORK:
            raise exceeded()
        frame[WORK] = total
        failure: EvaluationError | None = None
        for element in rounds:
            if second >= 0:
                frame[variable], frame[second] = element
            else:
                frame[variable] = element
            cost = frame[COST] = frame[COST] + units
            if cost > COST_LIMIT:
                cancel_over_limit(frame, (1,) * units)
            try:
                value = predicate(frame)
            except EvaluationError as error:
                absorb(frame, error)
                failure = failure or error
                value = otherwise
            if value is decides:
                # If the range had one more element, its condition would end the loop.
                more = before if next(rounds, UNSET) is not UNSET else 0
                charge_units(frame, more + 1)
                frame[WORK] -= length_hint(rounds) * work
                return decides
            if value is not otherwise:
                failure = failure or EvaluationError("no_such_overload", NO_OVERLOAD, offset)
        charge(frame, 1)
        if failure is not None:
            raise failure
        return otherwise

    return run
