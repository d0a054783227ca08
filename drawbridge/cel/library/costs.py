"""The costs of calls in cel-go's units: counted from sizes, and estimated from size ranges.

The factors and roundings are those of cel-go and Kubernetes, because they determine which
expressions an API server admits.
"""

import math
from collections.abc import Callable
from typing import Final

from drawbridge.cel.declare import (
    UNBOUNDED,
    CallEstimate,
    Cost,
    Estimate,
    Function,
    Operand,
    Overload,
    Range,
)
from drawbridge.cel.values import CelValue, Map, actual_size

# The cost per character, and per character of a regular expression for each character of a text.
TRAVERSAL: Final = 0.1
REGEX: Final = 0.25
LIST_BASE: Final = 10

ONE: Final = Range(1, 1)


def add(a: Range, b: Range) -> Range:
    """Add two ranges."""
    return Range(min(a.min + b.min, UNBOUNDED), min(a.max + b.max, UNBOUNDED))


def multiply(a: Range, b: Range) -> Range:
    """Multiply two ranges."""
    return Range(min(a.min * b.min, UNBOUNDED), min(a.max * b.max, UNBOUNDED))


def scale(size: int, factor: float) -> int:
    """Multiply by a factor as doubles, and round up."""
    return min(math.ceil(float(size) * factor), UNBOUNDED)


def traversal(value: CelValue) -> int:
    """Count one pass over a value."""
    return math.ceil(actual_size(value) * TRAVERSAL)


def constant(count: int) -> Cost:
    """Count the same cost for every call."""
    return lambda _args, _result: count


def fixed(estimate: CallEstimate) -> Estimate:
    """Estimate the same cost for every call."""
    return lambda _operands: estimate


def of_argument(position: int, factor: float = TRAVERSAL) -> Cost:
    """Count by the size of one argument."""
    return lambda args, _: math.ceil(actual_size(args[position]) * factor)


def estimate_argument(
    position: int, factor: float = TRAVERSAL, size: Callable[[Range], Range] | None = None
) -> Estimate:
    """Estimate by the size of one argument; may also estimate the size of the result."""

    def estimate(operands: tuple[Operand, ...]) -> CallEstimate:
        given = operands[position].size
        return CallEstimate(scale(given.max, factor), size(given) if size else None)

    return estimate


def parsing(name: str, *overloads: Overload, factor: float = TRAVERSAL) -> Function:
    """Declare a function that goes over the text that is its first argument."""
    return Function(name, overloads, of_argument(0, factor), estimate_argument(0, factor))


def same_size(given: Range) -> Range:
    """Estimate a result of the same size as the argument."""
    return given


def regex_cost(text: CelValue, pattern: CelValue) -> int:
    """Count a match of a text with a pattern."""
    # An empty text has a cost if the pattern is long.
    over_text = math.ceil((1.0 + actual_size(text)) * TRAVERSAL)
    return over_text * math.ceil(actual_size(pattern) * REGEX)


def regex_estimate(text: int, pattern: int) -> int:
    """Estimate a match of a text with a pattern, by their greatest sizes."""
    return scale(text + 1, TRAVERSAL) * scale(pattern, REGEX)


def smaller(args: tuple[CelValue, ...], _: CelValue) -> int:
    """Count a comparison of two values: one pass over the smaller one."""
    return math.ceil(min(actual_size(args[0]), actual_size(args[1])) * TRAVERSAL)


def estimate_smaller(operands: tuple[Operand, ...]) -> CallEstimate:
    """Estimate a comparison of two values."""
    most = min(operands[0].size.max, operands[1].size.max)
    return CallEstimate(scale(most, TRAVERSAL))


def deep(value: CelValue) -> int:
    """Count one pass over a value and all nested values."""
    return _deep(value, {})


def _deep(value: CelValue, sizes: dict[int, int]) -> int:
    if isinstance(value, str):
        return int(len(value.encode(errors="surrogatepass")) * TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * TRAVERSAL)
    if not isinstance(value, (list, tuple, dict, Map)):
        return 1
    # Values can contain the same value many times, so each is computed once and added each time.
    total = sizes.get(id(value))
    if total is None:
        if isinstance(value, (list, tuple)):
            total = sum(_deep(element, sizes) for element in value)
        elif isinstance(value, dict):
            total = sum(_deep(key, sizes) + _deep(held, sizes) for key, held in value.items())
        else:
            keys = value.keys()
            total = sum(_deep(key, sizes) + _deep(value.find(key), sizes) for key in keys)
        sizes[id(value)] = total
    return total


def over_everything(args: tuple[CelValue, ...], _: CelValue) -> int:
    """Count one pass over the first argument and all nested values."""
    return deep(args[0])


def estimate_elements(operands: tuple[Operand, ...]) -> CallEstimate:
    """Estimate one pass over the elements of a list or the characters of a text."""
    target = operands[0]
    if not target.type.params:
        return CallEstimate(scale(target.size.max, TRAVERSAL))
    per_element = 1
    if target.type.params[0].kind in {"string", "bytes"}:
        per_element += scale(target.items.max, TRAVERSAL)
    return CallEstimate(target.size.max * per_element)
