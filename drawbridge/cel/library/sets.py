"""cel-go's functions that treat lists as sets."""

from collections.abc import Sequence
from typing import Final

from drawbridge.cel.declare import (
    CallEstimate,
    Cost,
    Estimate,
    Function,
    Library,
    Operand,
    Overload,
)
from drawbridge.cel.library import costs
from drawbridge.cel.library.sequences import PLAIN
from drawbridge.cel.types import BOOL, A, list_of
from drawbridge.cel.values import CelValue, actual_size, same

_LISTS: Final = (list_of(A), list_of(A))
_Elements = Sequence[CelValue]


def _alike(a: _Elements, b: _Elements) -> bool:
    """Tell whether all elements are of one kind that Python compares as CEL does."""
    kinds = set(map(type, a)) | set(map(type, b))
    return len(kinds) <= 1 and kinds <= PLAIN


def _contains(elements: _Elements, wanted: _Elements) -> bool:
    if _alike(elements, wanted):
        return set(elements).issuperset(wanted)
    return all(any(same(one, other) for other in elements) for one in wanted)


def _equivalent(a: _Elements, b: _Elements) -> bool:
    return _contains(a, b) and _contains(b, a)


def _intersects(a: _Elements, b: _Elements) -> bool:
    if _alike(a, b):
        return not set(a).isdisjoint(b)
    return any(any(same(one, other) for other in b) for one in a)


def _cost(factor: int) -> Cost:
    return lambda args, _: 1 + actual_size(args[0]) * actual_size(args[1]) * factor


def _estimate(factor: int) -> Estimate:
    def estimate(operands: tuple[Operand, ...]) -> CallEstimate:
        pairs = costs.multiply(operands[0].size, operands[1].size)
        return CallEstimate(costs.scale(pairs.max, factor) + 1)

    return estimate


SETS: Final = Library(
    "cel.lib.ext.sets",
    tuple(
        Function(
            f"sets.{name}",
            (
                Overload(
                    f"list_sets_{name}_list", _LISTS, BOOL, implementation,
                    cost=_cost(factor), estimate=_estimate(factor),
                ),
            ),
        )
        for name, implementation, factor in (
            ("contains", _contains, 1),
            ("equivalent", _equivalent, 2),
            ("intersects", _intersects, 1),
        )
    ),
)  # fmt: skip
