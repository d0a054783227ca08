"""Plans calls of operators and functions: evaluation order, errors and cost.

As in cel-go, a call of two arguments evaluates both even if the first fails, and charges the call.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from drawbridge.cel.declare import Cost, Implementation
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.frame import (
    COST,
    COST_LIMIT,
    UNSET,
    Cancelled,
    Frame,
    Run,
    cancel_over_limit,
    charge,
    with_offset,
)
from drawbridge.cel.library.costs import TRAVERSAL
from drawbridge.cel.meter import Price, absorb, check_call, spend_call
from drawbridge.cel.values import Map, Optional, actual_size, equal, extent

NO_OVERLOAD = "no such overload"
# The most characters of a text and of a pattern whose search is kept, and how many are kept.
_SHORT = 64
_KEPT = 4096
_NESTED = frozenset({list, tuple, dict, Map, Optional})


def unary(
    implementation: Implementation,
    argument: Run,
    cost: Cost | None,
    price: Price | None,
    offset: int,
) -> Run:
    """Plan a function of one argument."""

    def run(frame: Frame) -> object:
        value: object = UNSET
        try:
            value = argument(frame)
            if price is not None:
                spend_call(frame, price(value))
            result = implementation(value)
        except EvaluationError as error:
            _charge_call(frame, cost, (error if value is UNSET else value,), error)
            raise with_offset(error, offset) from None
        amount = 1 if cost is None else cost((value,), result)
        total = frame[COST] = frame[COST] + amount
        if total > COST_LIMIT:
            cancel_over_limit(frame, (amount,))
        return result

    return run


def binary(  # noqa: PLR0913, PLR0917  # the parts of a call
    implementation: Implementation,
    left: Run,
    right: Run,
    cost: Cost | None,
    price: Price | None,
    offset: int,
) -> Run:
    """Plan a function of two arguments; both are evaluated even if the first fails."""

    def run(frame: Frame) -> object:
        a: object = UNSET
        b: object = UNSET
        try:
            a = left(frame)
            b = right(frame)
            if price is not None:
                spend_call(frame, price(a, b))
            result = implementation(a, b)
        except EvaluationError as error:
            if a is UNSET:
                a, b = error, _evaluate_for_cost(right, frame)
            elif b is UNSET:
                b = error
            _charge_call(frame, cost, (a, b), error)
            raise with_offset(error, offset) from None
        amount = 1 if cost is None else cost((a, b), result)
        total = frame[COST] = frame[COST] + amount
        if total > COST_LIMIT:
            cancel_over_limit(frame, (amount,))
        return result

    return run


def binary_constant(
    implementation: Implementation,
    left: Run,
    constant: object,
    steps: tuple[int, ...],
    offset: int,
) -> Run:
    """Plan a function of two arguments that costs 1 and whose second argument is known."""
    steps = (*steps, 1)
    amount = sum(steps)

    def run(frame: Frame) -> object:
        try:
            result = implementation(left(frame), constant)
        except EvaluationError as error:
            total = frame[COST] = frame[COST] + amount
            if total > COST_LIMIT:
                cancel_over_limit(frame, steps)
            raise with_offset(error, offset) from None
        total = frame[COST] = frame[COST] + amount
        if total > COST_LIMIT:
            cancel_over_limit(frame, steps)
        return result

    return run


def slot_constant(
    implementation: Implementation,
    slot: int,
    constant: object,
    steps: tuple[int, ...],
    offset: int,
) -> Run:
    """Plan the same for a first argument that is a comprehension variable."""
    steps = (1, *steps, 1)
    amount = sum(steps)

    def run(frame: Frame) -> object:
        total = frame[COST] = frame[COST] + amount
        if total > COST_LIMIT:
            cancel_over_limit(frame, steps)
        try:
            return implementation(frame[slot], constant)
        except EvaluationError as error:
            raise with_offset(error, offset) from None

    return run


def two_slots(implementation: Implementation, first: int, second: int, offset: int) -> Run:
    """Plan a function of two comprehension variables that costs 1."""

    def run(frame: Frame) -> object:
        total = frame[COST] = frame[COST] + 3
        if total > COST_LIMIT:
            cancel_over_limit(frame, (1, 1, 1))
        try:
            return implementation(frame[first], frame[second])
        except EvaluationError as error:
            raise with_offset(error, offset) from None

    return run


def variadic(
    implementation: Implementation,
    arguments: Sequence[Run],
    cost: Cost | None,
    price: Price | None,
    offset: int,
) -> Run:
    """Plan a function of any number of arguments; the first failure ends it without a charge."""
    last = len(arguments) - 1

    def run(frame: Frame) -> object:
        values: list[object] = []
        try:
            for argument in arguments:
                values.append(argument(frame))  # noqa: PERF401  # kept when one fails
        except EvaluationError as error:
            # cel-go charges a call after it evaluates all arguments, even if one fails.
            if len(values) == last:
                _charge_call(frame, cost, (*values, error), error)
            raise with_offset(error, offset) from None
        try:
            if price is not None:
                spend_call(frame, price(*values))
            result = implementation(*values)
        except EvaluationError as error:
            _charge_call(frame, cost, tuple(values), error)
            raise with_offset(error, offset) from None
        charge(frame, 1 if cost is None else cost(tuple(values), result))
        return result

    return run


def search(  # noqa: PLR0913, PLR0917  # the parts of a call
    implementation: Implementation,
    text: Run,
    pattern: object,
    cost: Cost | None,
    price: Price,
    slot: int,
    offset: int,
) -> Run:
    """Plan a search for a constant pattern; a loop searches a text once in an evaluation.

    `slot` keeps the last text. As in `variadic`, a text that fails ends the call without a charge.
    """
    is_short = type(pattern) is str and len(pattern) <= _SHORT

    def run(frame: Frame) -> object:
        try:
            value = text(frame)
        except EvaluationError as error:
            raise with_offset(error, offset) from None
        last = frame[slot]
        if type(last) is tuple and last[0] == value:
            _, result, amount = last
        else:
            try:
                if is_short and type(value) is str and len(value) <= _SHORT:
                    work, result, amount = _search_short(
                        implementation, value, pattern, cost, price
                    )
                    spend_call(frame, work)
                else:
                    spend_call(frame, price(value, pattern))
                    result = implementation(value, pattern)
                    amount = 1 if cost is None else cost((value, pattern), result)
            except EvaluationError as error:
                _charge_call(frame, cost, (value, pattern), error)
                raise with_offset(error, offset) from None
            frame[slot] = value, result, amount
        charge(frame, amount)
        return result

    return run


@lru_cache(maxsize=_KEPT)
def _search_short(
    implementation: Implementation, text: str, pattern: str, cost: Cost | None, price: Price
) -> tuple[int, object, int]:
    """Search a short text, of which many devices have the same; returns work, result and cost."""
    work = price(text, pattern)
    check_call(work)
    result = implementation(text, pattern)
    return work, result, 1 if cost is None else cost((text, pattern), result)


def _charge_call(
    frame: Frame, cost: Cost | None, values: tuple[object, ...], result: object
) -> None:
    try:
        amount = 1 if cost is None else cost(values, result)
    except EvaluationError as error:
        # cel-go panics here, so neither `||` nor `&&` absorbs this error.
        raise Cancelled(error.kind, error.message) from None
    charge(frame, amount)


def _evaluate_for_cost(argument: Run, frame: Frame) -> object:
    """Evaluate an argument only for its cost; the error of an earlier argument is reported."""
    try:
        return argument(frame)
    except EvaluationError as error:
        absorb(frame, error)
        return error


def equality(left: Run, right: Run, cost: Cost, offset: int, *, negated: bool) -> Run:
    """Plan `==` and `!=`; values of different kinds are unequal, not an error."""
    wanted = not negated

    def run(frame: Frame) -> object:
        a: object = UNSET
        b: object = UNSET
        try:
            a = left(frame)
            b = right(frame)
            if type(a) in _NESTED and type(b) in _NESTED and actual_size(a) == actual_size(b):
                spend_call(frame, extent(a))
            result = equal(a, b) is wanted
        except EvaluationError as error:
            if a is UNSET:
                a, b = error, _evaluate_for_cost(right, frame)
            elif b is UNSET:
                b = error
            elif negated:
                absorb(frame, error)
                _charge_call(frame, cost, (a, b), True)  # noqa: FBT003  # a result
                return True
            _charge_call(frame, cost, (a, b), error)
            raise with_offset(error, offset) from None
        if type(a) is str and type(b) is str:
            amount = math.ceil(min(len(a), len(b)) * TRAVERSAL)
        else:
            amount = cost((a, b), result)
        total = frame[COST] = frame[COST] + amount
        if total > COST_LIMIT:
            cancel_over_limit(frame, (amount,))
        return result

    return run


def equal_to_text(left: Run, text: str, cost: Cost, offset: int, *, negated: bool) -> Run:
    """Plan `==` and `!=` with a constant string, the most frequent comparison."""
    longest = len(text)
    wanted = not negated

    def run(frame: Frame) -> object:
        value: object = UNSET
        try:
            value = left(frame)
            if type(value) is str:
                amount = math.ceil(min(len(value), longest) * TRAVERSAL)
                result = (value == text) is wanted
            else:
                result = equal(value, text) is wanted
                amount = cost((value, text), result)
        except EvaluationError as error:
            if value is not UNSET and negated:
                absorb(frame, error)
                charge(frame, cost((value, text), True))  # noqa: FBT003  # a result
                return True
            _charge_call(frame, cost, (error if value is UNSET else value, text), error)
            raise with_offset(error, offset) from None
        total = frame[COST] = frame[COST] + amount
        if total > COST_LIMIT:
            cancel_over_limit(frame, (amount,))
        return result

    return run


def conjunction(terms: Sequence[Run], offset: int) -> Run:
    """Plan `&&` over all its terms: false if any term is, even if others fail."""
    return _junction(terms, offset, decides=False)


def disjunction(terms: Sequence[Run], offset: int) -> Run:
    """Plan `||` over all its terms: true if any term is, even if others fail."""
    return _junction(terms, offset, decides=True)


def _junction(terms: Sequence[Run], offset: int, *, decides: bool) -> Run:
    optional_or = not decides

    def run(frame: Frame) -> object:
        failure: EvaluationError | None = None
        for term in terms:
            try:
                value = term(frame)
            except EvaluationError as error:
                absorb(frame, error)
                failure = failure or error
                continue
            if value is decides:
                return value
            if value is not optional_or and failure is None:
                failure = EvaluationError("no_such_overload", NO_OVERLOAD)
        if failure is not None:
            raise with_offset(failure, offset)
        return optional_or

    return run


def optional_or(
    left: Run, right: Run, otherwise: Implementation, offset: int, *, unwrap: bool
) -> Run:
    """Plan `or` and `orValue` of optionals; a value that is no optional goes to `otherwise`."""

    def run(frame: Frame) -> object:
        value = left(frame)
        if type(value) is not Optional:
            try:
                return otherwise(value)
            except EvaluationError as error:
                raise with_offset(error, offset) from None
        if value.present:
            return value.value if unwrap else value
        return right(frame)

    return run


def membership(element: Run, contains: Callable[[object], bool]) -> Run:
    """Plan `in` over a list of constants; the lookup is free."""

    def run(frame: Frame) -> object:
        return contains(element(frame))

    return run


def not_strictly_false(argument: Run) -> Run:
    """Plan the loop condition of a comprehension: any value but false, or an error."""

    def run(frame: Frame) -> object:
        try:
            value = argument(frame)
        except EvaluationError as error:
            absorb(frame, error)
            value = True
        charge(frame, 1)
        return value if type(value) is bool else True

    return run
