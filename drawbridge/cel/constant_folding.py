"""Folds constant subexpressions at compile time.

cel-go folds conversions of constants, lists and maps of constants, and membership in a list of
constants; evaluation does not charge these. In addition, this module calls a function once if all
arguments are known, and charges its cost in each evaluation.
"""

import math
from collections.abc import Callable, Sequence

import msgspec

from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.meter import LARGEST_FOLDED
from drawbridge.cel.numbers import INT_MAX, UINT_MAX
from drawbridge.cel.semver import Semver
from drawbridge.cel.values import Uint, actual_size

CONVERSIONS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
# Small arguments give large results, so these run at evaluation.
NOT_FOLDED = frozenset({"lists.range"})
_LOOKED_UP = frozenset({str, bool, int, Uint, float})
_UNHASHABLE = frozenset({bytes, Semver})


class FoldedValue(msgspec.Struct, frozen=True, eq=False):
    """A value that does not depend on the input; each evaluation charges `steps`.

    `constant` tells whether cel-go treats it as a constant, too, which enables further folding.
    """

    value: object
    steps: tuple[int, ...] = ()
    constant: bool = True


def is_early(function: str, arguments: Sequence[FoldedValue]) -> bool:
    """Tell whether cel-go converts a constant at compile time, and reports its error there."""
    return function in CONVERSIONS and len(arguments) == 1 and arguments[0].constant


def call(
    function: str,
    implementation: Callable[..., object],
    arguments: Sequence[FoldedValue],
    cost: Callable[[tuple[object, ...], object], int] | None,
) -> FoldedValue | None:
    """Fold a call; returns None if it fails, has a large result, or must wait until run time.

    A failed conversion of a constant raises the error at compile time.
    """
    values = tuple(argument.value for argument in arguments)
    if is_early(function, arguments):
        return FoldedValue(implementation(*values))
    if function in NOT_FOLDED:
        return None
    try:
        result = implementation(*values)
    except EvaluationError:
        return None
    if actual_size(result) > LARGEST_FOLDED:
        return None
    steps = tuple(step for argument in arguments for step in argument.steps)
    amount = 1 if cost is None else cost(values, result)
    return FoldedValue(result, (*steps, amount), constant=False)


def aggregate(value: object, parts: Sequence[FoldedValue], base: int) -> FoldedValue:
    """Fold a list or a map. One of constants is a constant; otherwise its cost remains."""
    if all(part.constant for part in parts):
        return FoldedValue(value)
    steps = tuple(step for part in parts for step in part.steps)
    return FoldedValue(value, (*steps, base), constant=False)


def membership(elements: Sequence[object]) -> Callable[[object], bool] | None:
    """Plan `in` over constants as a lookup; None where cel-go compares the elements.

    The lookup is by kind and value. It also finds a number as each other kind of number that it
    converts to, which differs from equality for large numbers.
    """
    if any(type(element) not in _LOOKED_UP for element in elements):
        return None
    texts = frozenset(element for element in elements if type(element) is str)
    exact = frozenset(pair for element in elements for pair in _kinds(element))

    def is_listed(value: object) -> bool:
        kind = type(value)
        if kind is str:
            return value in texts
        if kind in _LOOKED_UP:
            return (kind, value) in exact
        if kind in _UNHASHABLE:
            raise EvaluationError("internal", "a value of this kind cannot be looked up")
        return False

    return is_listed


def _kinds(element: object) -> list[tuple[type, object]]:
    if isinstance(element, float):
        return _of_double(element)
    if isinstance(element, bool) or not isinstance(element, int):
        return [(type(element), element)]
    kinds: list[tuple[type, object]] = [(type(element), element), (float, float(element))]
    if isinstance(element, Uint):
        return [*kinds, (int, int(element))] if element <= INT_MAX else kinds
    return [*kinds, (Uint, Uint(element))] if element >= 0 else kinds


def _of_double(element: float) -> list[tuple[type, object]]:
    if math.isnan(element):
        return []
    kinds: list[tuple[type, object]] = [(float, element)]
    if math.isinf(element) or element != int(element):
        return kinds
    whole = int(element)
    if -INT_MAX - 1 < whole < INT_MAX:
        kinds.append((int, whole))
    if 0 <= whole < UINT_MAX:
        kinds.append((Uint, Uint(whole)))
    return kinds
