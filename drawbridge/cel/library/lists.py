"""Kubernetes' list functions: sum, min, max, isSorted, indexOf, lastIndexOf, includes."""

from collections.abc import Callable, Sequence
from typing import Final

from drawbridge.cel import times
from drawbridge.cel.declare import CallEstimate, Function, Library, Operand, Overload
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library import costs
from drawbridge.cel.library.arithmetic import add_durations, add_ints, add_uints
from drawbridge.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    Type,
    list_of,
)
from drawbridge.cel.values import (
    CelValue,
    Uint,
    compare,
    no_such_overload,
    same,
    type_name,
    type_value_of,
)

_Elements = Sequence[CelValue]
# The maximum number of values in a list attribute.
_LONGEST: Final = 48

_LIST: Final = list_of(A)

_SUMMABLE: Final = (
    ("int", INT, 0, add_ints),
    ("uint", UINT, Uint(0), add_uints),
    ("double", DOUBLE, 0.0, lambda a, b: a + b),
    ("duration", DURATION, times.Duration(0), add_durations),
)

COMPARABLE: Final = (
    ("int", INT), ("uint", UINT), ("double", DOUBLE), ("bool", BOOL), ("duration", DURATION),
    ("timestamp", TIMESTAMP), ("string", STRING), ("bytes", BYTES),
)  # fmt: skip


def _includes(target: CelValue, element: CelValue) -> bool:
    """Tell whether a list contains the element, or a value that is not a list equals it."""
    if isinstance(target, (list, tuple)):
        return any(same(other, element) for other in target)
    return same(target, element)


def _includes_of_dra(target: CelValue, element: CelValue) -> bool:
    """Do the same for list attributes: a longer list is refused unless it begins with the value."""
    if not isinstance(target, (list, tuple)) or len(target) <= _LONGEST:
        return _includes(target, element)
    if _includes(target[:_LONGEST], element):
        return True
    raise EvaluationError(
        "list_elements", f"'includes' cannot be applied to lists longer than {_LONGEST} values"
    )


def _includes_estimate(operands: tuple[Operand, ...]) -> CallEstimate:
    if operands[0].type.params:
        return costs.estimate_elements(operands)
    return CallEstimate(operands[0].size.max)


def _is_sorted(elements: _Elements) -> bool:
    for at, element in enumerate(elements):
        _comparable(element)
        # Kubernetes treats values without an order as sorted.
        if at and order(elements[at - 1], element) > 0:
            return False
    return True


def order(first: CelValue, second: CelValue) -> int:
    """Compare two values; returns 0 if they have no order, as Kubernetes does."""
    try:
        return compare(first, second)
    except EvaluationError:
        return 0


def _comparable(element: CelValue) -> None:
    if type_name(element) not in COMPARABLE_NAMES:
        raise no_such_overload()


COMPARABLE_NAMES: Final = frozenset(type_value_of(type_).name for _, type_ in COMPARABLE)


def _best(name: str, sign: int) -> Callable[[_Elements], CelValue]:
    def best(elements: _Elements) -> CelValue:
        if not elements:
            raise EvaluationError("empty_list", f"{name} called on empty list")
        best_value = elements[0]
        _comparable(best_value)
        for element in elements[1:]:
            _comparable(element)
            if order(best_value, element) == sign:
                best_value = element
        return best_value

    return best


def _sum(
    zero: CelValue, add: Callable[..., CelValue], kind: type
) -> Callable[[_Elements], CelValue]:
    def total(elements: _Elements) -> CelValue:
        amount = zero
        for element in elements:
            if type(element) is not kind:
                raise no_such_overload()
            amount = add(amount, element)
        return amount

    return total


def _index_of(elements: _Elements, wanted: CelValue) -> int:
    for at, element in enumerate(elements):
        if same(element, wanted):
            return at
    return -1


def _last_index_of(elements: _Elements, wanted: CelValue) -> int:
    for at in range(len(elements) - 1, -1, -1):
        if same(elements[at], wanted):
            return at
    return -1


def _templated(
    name: str, id_: str, implementation: Callable[..., CelValue], *, to: Type | None
) -> Function:
    overloads = tuple(
        Overload(id_.format(kind), (list_of(type_),), to or type_, implementation, member=True)
        for kind, type_ in COMPARABLE
    )
    return Function(name, overloads, cost=costs.over_everything, estimate=costs.estimate_elements)


_KUBERNETES: Final = (
    _templated("isSorted", "list_{}_is_sorted_bool", _is_sorted, to=BOOL),
    Function(
        "sum",
        tuple(
            Overload(
                f"list_{kind}_sum_{kind}", (list_of(type_),), type_, _sum(zero, add, type(zero)),
                member=True,
            )
            for kind, type_, zero, add in _SUMMABLE
        ),
        cost=costs.over_everything,
        estimate=costs.estimate_elements,
    ),
    _templated("max", "list_{0}_max_{0}", _best("max", -1), to=None),
    _templated("min", "list_{0}_min_{0}", _best("min", 1), to=None),
    *(
        Function(
            name,
            (Overload(id_, (_LIST, A), INT, implementation, member=True),),
            cost=costs.over_everything,
            estimate=costs.estimate_elements,
        )
        for name, id_, implementation in (
            ("indexOf", "list_a_index_of_int", _index_of),
            ("lastIndexOf", "list_a_last_index_of_int", _last_index_of),
        )
    ),
)  # fmt: skip

# In 1.36, only DRA has `includes`; since 1.37, all lists do.
DRA_INCLUDES: Final = Library(
    "dra.includes",
    (
        Function(
            "includes",
            (
                Overload(
                    "dra_includes_dyn_dyn", (DYN, DYN), BOOL, _includes_of_dra, member=True,
                    estimate=costs.fixed(CallEstimate(_LONGEST)),
                ),
            ),
        ),
    ),
)  # fmt: skip
INCLUDES: Final = Library(
    "kubernetes.includes",
    (
        Function(
            "includes",
            (Overload("list_includes_dyn_dyn", (DYN, DYN), BOOL, _includes, member=True),),
            cost=costs.over_everything,
            estimate=_includes_estimate,
        ),
    ),
)

KUBERNETES_LISTS: Final = Library("kubernetes.lists", _KUBERNETES)
