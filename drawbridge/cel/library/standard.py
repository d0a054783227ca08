"""The standard operators and functions of CEL, without conversions and times.

Logic, indexes and conditionals are declared only for the checker. The compiler plans them itself,
because they do not always evaluate their operands.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Final

from drawbridge.cel.declare import (
    ANY_SIZE,
    CallEstimate,
    Cost,
    Estimate,
    Function,
    Library,
    Operand,
    Overload,
    unimplemented,
)
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library import costs
from drawbridge.cel.library.arithmetic import FUNCTIONS as ARITHMETIC
from drawbridge.cel.library.conversions import FUNCTIONS as CONVERSIONS
from drawbridge.cel.library.conversions import INT_TO_DURATION
from drawbridge.cel.library.regex import matches, prepare
from drawbridge.cel.library.time import FUNCTIONS as TIMES
from drawbridge.cel.types import (
    BOOL,
    BYTES,
    CIDR,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    IP,
    NAMED_FORMAT,
    NULL,
    QUANTITY,
    SEMVER,
    STRING,
    TIMESTAMP,
    UINT,
    URL,
    A,
    B,
    Type,
    list_of,
    map_of,
    type_of,
)
from drawbridge.cel.values import (
    CelValue,
    actual_size,
    compare,
    contains,
    equal,
    no_such_overload,
    size,
    type_name,
)

LIST: Final = list_of(A)
MAP: Final = map_of(A, B)


def _standard(*, newer: bool) -> Library:
    functions = (
        *_logic(),
        *_comparisons(),
        *ARITHMETIC,
        *_CONTAINERS,
        *_texts(newer=newer),
        *CONVERSIONS,
        *(() if newer else (INT_TO_DURATION,)),
        *TIMES,
    )
    return Library("standard", functions, TYPES)


TYPES: Final[Mapping[str, Type]] = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "google.protobuf.Duration": DURATION,
    "int": INT,
    "list": LIST,
    "map": MAP,
    "null_type": NULL,
    "string": STRING,
    "google.protobuf.Timestamp": TIMESTAMP,
    "type": type_of(DYN),
    "uint": UINT,
}


def _not(value: CelValue) -> CelValue:
    if isinstance(value, bool):
        return not value
    raise no_such_overload()


def _logic() -> tuple[Function, ...]:
    both = (BOOL, BOOL)
    return (
        Function("_?_:_", (Overload("conditional", (BOOL, A, A), A, unimplemented),)),
        Function("_&&_", (Overload("logical_and", both, BOOL, unimplemented),)),
        Function("_||_", (Overload("logical_or", both, BOOL, unimplemented),)),
        Function("!_", (Overload("logical_not", (BOOL,), BOOL, _not),)),
        Function(
            "@not_strictly_false",
            (Overload("not_strictly_false", (BOOL,), BOOL, unimplemented),),
        ),
        _equality("_==_", "equals", _equals_cost, _estimate_equals),
        _equality("_!=_", "not_equals", costs.smaller, costs.estimate_smaller),
    )


def _equality(name: str, id_: str, cost: Cost, estimate: Estimate) -> Function:
    # The compiler plans both operators; a comparison shows what their work is.
    overload = Overload(id_, (A, A), BOOL, equal, cost=cost, estimate=estimate)
    return Function(name, (overload,), cost=cost, estimate=estimate)


# cel-go compares these in one step, whatever their size is.
_OPAQUE_NAMES: Final = frozenset(
    type_.name for type_ in (QUANTITY, SEMVER, URL, NAMED_FORMAT, IP, CIDR)
)


def _equals_cost(args: tuple[CelValue, ...], result: CelValue) -> int:
    left = args[0]
    if not isinstance(left, EvaluationError) and type_name(left) in _OPAQUE_NAMES:
        return 1
    return costs.smaller(args, result)


def _estimate_equals(operands: tuple[Operand, ...]) -> CallEstimate:
    left, right = operands[0].type, operands[1].type
    if left == right and left.name in _OPAQUE_NAMES:
        if left == NAMED_FORMAT:
            return CallEstimate(costs.scale(64, costs.TRAVERSAL))
        if left == URL:
            size = operands[1].size
            most = 1 if size == ANY_SIZE else size.max
            return CallEstimate(costs.scale(most, costs.TRAVERSAL))
        return CallEstimate(1)
    return costs.estimate_smaller(operands)


_ORDERS: Final[Mapping[str, tuple[str, Callable[[int], bool]]]] = {
    "_<_": ("less", lambda order: order < 0),
    "_<=_": ("less_equals", lambda order: order <= 0),
    "_>_": ("greater", lambda order: order > 0),
    "_>=_": ("greater_equals", lambda order: order >= 0),
}
# Python's own operator has the same result, except for doubles.
_DIRECT: Final[Mapping[str, Callable[..., CelValue]]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}
_COMPARED: Final = (
    ("bool", BOOL, BOOL),
    ("int64", INT, INT), ("int64_double", INT, DOUBLE), ("int64_uint64", INT, UINT),
    ("uint64", UINT, UINT), ("uint64_double", UINT, DOUBLE), ("uint64_int64", UINT, INT),
    ("double", DOUBLE, DOUBLE), ("double_int64", DOUBLE, INT), ("double_uint64", DOUBLE, UINT),
    ("string", STRING, STRING), ("bytes", BYTES, BYTES),
    ("timestamp", TIMESTAMP, TIMESTAMP), ("duration", DURATION, DURATION),
)  # fmt: skip


def _comparisons() -> tuple[Function, ...]:
    return tuple(
        Function(name, tuple(_comparison(name, *kind) for kind in _COMPARED)) for name in _ORDERS
    )


def _comparison(name: str, kind: str, left: Type, right: Type) -> Overload:
    prefix, holds = _ORDERS[name]
    direct = _DIRECT[name]

    def ordered(a: CelValue, b: CelValue) -> bool:
        return holds(compare(a, b))

    exact = DOUBLE not in {left, right} and left not in {TIMESTAMP, DURATION}
    texts = left in {STRING, BYTES}
    return Overload(
        f"{prefix}_{kind}",
        (left, right),
        BOOL,
        direct if exact else ordered,
        cost=costs.smaller if texts else None,
        estimate=costs.estimate_smaller if texts else None,
    )


def _in(element: CelValue, container: CelValue) -> bool:
    return contains(container, element)


def _texts(*, newer: bool) -> tuple[Function, ...]:
    # Up to 1.36, the cost is that of the whole text; since then, of the affix.
    affix = costs.of_argument(1 if newer else 0)
    estimate = costs.estimate_argument(1)
    return (
        _CONTAINS,
        *(
            Function(name, (_member(id_, implementation, affix, estimate),))
            for name, id_, implementation in (
                ("startsWith", "starts_with_string", str.startswith),
                ("endsWith", "ends_with_string", str.endswith),
            )
        ),
        Function("matches", _matches_overloads(newer=newer)),
    )


def _member(
    id_: str, implementation: Callable[..., CelValue], cost: Cost, estimate: Estimate
) -> Overload:
    texts = (STRING, STRING)
    return Overload(id_, texts, BOOL, implementation, member=True, cost=cost, estimate=estimate)


def _contains_cost(args: tuple[CelValue, ...], _: CelValue) -> int:
    return costs.traversal(args[0]) * costs.traversal(args[1])


def _estimate_contains(operands: tuple[Operand, ...]) -> CallEstimate:
    text, part = (costs.scale(operand.size.max, costs.TRAVERSAL) for operand in operands)
    return CallEstimate(text * part)


def _matches_overloads(*, newer: bool) -> tuple[Overload, ...]:
    def cost(args: tuple[CelValue, ...], _: CelValue) -> int:
        return costs.regex_cost(args[0], args[1])

    def estimate(operands: tuple[Operand, ...]) -> CallEstimate:
        return CallEstimate(costs.regex_estimate(operands[0].size.max, operands[1].size.max))

    texts = (STRING, STRING)
    # The function form is not charged up to 1.36.
    return (
        Overload(
            "matches", texts, BOOL, matches, cost=cost if newer else None,
            estimate=estimate if newer else None, prepare=prepare,
        ),
        Overload(
            "matches_string", texts, BOOL, matches, member=True, cost=cost,
            estimate=estimate, prepare=prepare,
        ),
    )  # fmt: skip


_CONTAINS: Final = Function(
    "contains",
    (
        _member(
            "contains_string", lambda text, part: part in text, _contains_cost, _estimate_contains
        ),
    ),
)
_CONTAINERS: Final = (
    Function(
        "_[_]",
        (
            Overload("index_list", (LIST, INT), A, unimplemented),
            Overload("index_map", (MAP, A), B, unimplemented),
        ),
    ),
    Function(
        "@in",
        (
            Overload(
                "in_list", (A, LIST), BOOL, _in,
                cost=lambda args, _: actual_size(args[1]), estimate=costs.estimate_argument(1, 1),
            ),
            Overload("in_map", (A, MAP), BOOL, _in),
        ),
    ),
    Function(
        "size",
        tuple(
            Overload(id_, (kind,), INT, size, member=member)
            for name, kind in (("bytes", BYTES), ("list", LIST), ("map", MAP), ("string", STRING))
            for id_, member in ((f"size_{name}", False), (f"{name}_size", True))
        ),
    ),
)  # fmt: skip
# Up to Kubernetes 1.36, and since 1.37.
STANDARD: Final = _standard(newer=False)
STANDARD_1_37: Final = _standard(newer=True)
