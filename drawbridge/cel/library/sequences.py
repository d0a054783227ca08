"""cel-go's list functions, as in version 3: slice, flatten, sort, distinct, range and others."""

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Final

from drawbridge.cel.declare import (
    UNBOUNDED,
    CallEstimate,
    Cost,
    Estimate,
    Function,
    Library,
    Operand,
    Overload,
    Range,
)
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library import costs
from drawbridge.cel.library.lists import COMPARABLE, COMPARABLE_NAMES, order
from drawbridge.cel.types import (
    BYTES,
    DYN,
    INT,
    STRING,
    A,
    B,
    Type,
    list_of,
)
from drawbridge.cel.values import (
    CelValue,
    Uint,
    actual_size,
    no_such_overload,
    same,
    type_name,
    type_value_of,
)

_Elements = Sequence[CelValue]

_LIST: Final = list_of(A)
# Kubernetes' own limit, since 1.37.
_MOST_ELEMENTS: Final = 1_000_000

# Kinds that Python compares as CEL does, unless they are mixed.
PLAIN: Final = frozenset({int, Uint, str, bool, bytes})


def _slice(elements: _Elements, start: int, end: int) -> list[CelValue]:
    problem = ""
    if start < 0 or end < 0:
        problem = "negative indexes not supported"
    elif start > end:
        problem = "start index must be less than or equal to end index"
    elif end > len(elements):
        problem = f"list is length {len(elements)}"
    if problem:
        raise EvaluationError("index", f"cannot slice({start}, {end}), {problem}")
    return list(elements[start:end])


def _flatten(elements: CelValue, depth: CelValue = 1) -> list[CelValue]:
    if not isinstance(elements, (list, tuple)) or type(depth) is not int:
        raise no_such_overload()
    if depth < 0:
        raise EvaluationError("list_elements", "level must be non-negative")
    flat: list[CelValue] = []
    pending = [iter(elements)]
    while pending:
        for element in pending[-1]:
            if isinstance(element, (list, tuple)) and len(pending) <= depth:
                pending.append(iter(element))
                break
            flat.append(element)
        else:
            pending.pop()
    return flat


def _sort(elements: _Elements) -> _Elements:
    return _sort_by(elements, elements)


def _sort_by(elements: _Elements, keys: _Elements) -> _Elements:
    if len(elements) != len(keys):
        raise EvaluationError("list_elements", "the keys are not as many as the elements")
    if not elements:
        return elements
    kind = type_name(keys[0])
    if kind not in COMPARABLE_NAMES:
        raise EvaluationError("list_elements", "list elements must be comparable")
    if any(type_name(key) != kind for key in keys):
        raise EvaluationError("list_elements", "list elements must have the same type")
    if type(keys[0]) in PLAIN:
        ranks = sorted(range(len(keys)), key=keys.__getitem__)  # type: ignore[arg-type]
    else:
        by_key = cmp_to_key(order)
        ranks = sorted(range(len(keys)), key=lambda at: by_key(keys[at]))
    return [elements[at] for at in ranks]


def _distinct(elements: _Elements) -> list[CelValue]:
    kinds = {type(element) for element in elements}
    if len(kinds) <= 1 and kinds <= PLAIN:
        return list(dict.fromkeys(elements))
    distinct: list[CelValue] = []
    for element in elements:
        if not any(same(element, other) for other in distinct):
            distinct.append(element)
    return distinct


def _reverse(elements: _Elements) -> list[CelValue]:
    return list(elements[::-1])


def _range(count: int) -> list[CelValue]:
    return list(range(count))


def _checked_range(count: int) -> list[CelValue]:
    if count < 0:
        raise EvaluationError(
            "list_elements", f"lists.range: size must be non-negative, got {count}"
        )
    if count > _MOST_ELEMENTS:
        raise EvaluationError(
            "list_elements", f"lists.range: size {count} exceeds maximum allowed ({_MOST_ELEMENTS})"
        )
    return _range(count)


def allocating(factor: float, size: Range) -> CallEstimate:
    """Estimate a call that creates a list, at a factor for each element."""
    return CallEstimate(costs.scale(size.max, factor) + 1 + costs.LIST_BASE, size)


def _allocated(factor: float, size: int) -> int:
    return int(size * factor) + 1 + costs.LIST_BASE


def _by_result(_: tuple[CelValue, ...], result: CelValue) -> int:
    return _allocated(1, actual_size(result))


def _by_depth(args: tuple[CelValue, ...], _: CelValue) -> int:
    depth = args[1] if len(args) > 1 and isinstance(args[1], int) else 1
    # cel-go's unsigned number wraps around for a negative depth.
    return _allocated(depth, actual_size(args[0])) % 2**64


def _by_least_depth(args: tuple[CelValue, ...], _: CelValue) -> int:
    depth = args[1] if len(args) > 1 and isinstance(args[1], int) else 1
    return _allocated(depth if depth >= 0 else 1, actual_size(args[0]))


def _by_pairs(position: int) -> Callable[[tuple[CelValue, ...], CelValue], int]:
    def cost(args: tuple[CelValue, ...], _: CelValue) -> int:
        elements = args[position]
        if isinstance(elements, EvaluationError):
            # cel-go panics when it charges a call whose list has failed.
            raise EvaluationError("internal", elements.message)
        # cel-go's cost function panics on a value that is not a list, before it charges anything.
        if not isinstance(elements, (list, tuple)):
            return 0
        if not elements:
            return _allocated(2, 0)
        factor = 2 + (costs.TRAVERSAL if isinstance(elements[0], (str, bytes)) else 0)
        return _allocated(factor, len(elements) ** 2)

    return cost


def _pairs_estimate(position: int, factor: float) -> Estimate:
    def estimate(operands: tuple[Operand, ...]) -> CallEstimate:
        size = operands[position].size
        return allocating(factor, costs.multiply(size, size))

    return estimate


def _literal(operand: Operand, default: int) -> int:
    value = operand.literal
    return max(value, 0) if type(value) is int else default


def _slice_estimate(operands: tuple[Operand, ...]) -> CallEstimate:
    start = _literal(operands[1], 0)
    # cel-go's unsigned difference wraps around if the end precedes the start.
    size = (_literal(operands[2], operands[0].size.max) - start) % 2**64
    return allocating(1, Range(size, size))


def _flatten_estimate(operands: tuple[Operand, ...]) -> CallEstimate:
    depth = _literal(operands[1], UNBOUNDED) if len(operands) > 1 else 1
    return allocating(float(depth), operands[0].size)


def _range_estimate(operands: tuple[Operand, ...]) -> CallEstimate:
    size = _literal(operands[0], UNBOUNDED)
    return allocating(1, Range(size, size))


def _reverse_estimate(operands: tuple[Operand, ...]) -> CallEstimate:
    return allocating(1, operands[0].size)


def _sorting(name: str, type_: Type) -> Overload:
    texts = type_ in {STRING, BYTES}
    factor = 2 + costs.TRAVERSAL if texts else 2.0
    if name == "sort":
        params: tuple[Type, ...] = (list_of(type_),)
        implementation: Callable[..., CelValue] = _sort
    else:
        params, implementation = (list_of(B), list_of(type_)), _sort_by
    return Overload(
        f"list_{type_value_of(type_).name}_{name}", params, params[0], implementation, member=True,
        cost=_by_pairs(len(params) - 1), estimate=_pairs_estimate(len(params) - 1, factor),
    )  # fmt: skip


def _flatten_function(cost: Cost) -> Function:
    """Declare `flatten`, which accepts at run time lists that are flat already, as in cel-go."""
    return Function(
        "flatten",
        (
            Overload(
                "list_flatten", (list_of(_LIST),), _LIST, _flatten, member=True,
                cost=cost, estimate=_flatten_estimate, unguarded=True,
            ),
            Overload(
                "list_flatten_int", (list_of(DYN), INT), list_of(DYN), _flatten, member=True,
                cost=cost, estimate=_flatten_estimate, unguarded=True,
            ),
        ),
    )  # fmt: skip


def _range_function(*, checked: bool) -> Function:
    return Function(
        "lists.range",
        (
            Overload(
                "lists_range", (INT,), list_of(INT), _checked_range if checked else _range,
                cost=_by_result, estimate=_range_estimate,
            ),
        ),
    )  # fmt: skip


_CEL: Final = (
    Function(
        "slice",
        (
            Overload(
                "list_slice", (_LIST, INT, INT), _LIST, _slice, member=True,
                cost=_by_result, estimate=_slice_estimate,
            ),
        ),
    ),
    *(
        Function(name, tuple(_sorting(id_, type_) for _, type_ in COMPARABLE))
        for name, id_ in (("sort", "sort"), ("@sortByAssociatedKeys", "sortByAssociatedKeys"))
    ),
    Function(
        "reverse",
        (
            Overload(
                "list_reverse", (_LIST,), _LIST, _reverse, member=True,
                cost=_by_result, estimate=_reverse_estimate,
            ),
        ),
    ),
    Function(
        "distinct",
        (
            Overload(
                "list_distinct", (_LIST,), _LIST, _distinct, member=True,
                cost=_by_pairs(0), estimate=_pairs_estimate(0, 2.0),
            ),
        ),
    ),
)  # fmt: skip

LISTS: Final = Library(
    "cel.lib.ext.lists", (*_CEL, _flatten_function(_by_depth), _range_function(checked=False))
)

LISTS_1_37: Final = Library(
    "cel.lib.ext.lists", (*_CEL, _flatten_function(_by_least_depth), _range_function(checked=True))
)
