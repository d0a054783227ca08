"""Optional values, as in version 2 of cel-go's library.

Optional indexes and selections, `or` and `orValue` are declared only for the checker. The compiler
plans them itself, because they do not always evaluate their operands. It calls the implementation
of `or` and `orValue` with a value that is no optional: since 1.37, that is an error.
"""

from collections.abc import Callable
from typing import Final

from drawbridge.cel.declare import Function, Library, Overload, unimplemented
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library.conversions import identity
from drawbridge.cel.times import ZERO_TIME, Duration
from drawbridge.cel.types import BOOL, DYN, INT, STRING, A, B, list_of, map_of, optional_of
from drawbridge.cel.values import (
    MISSING,
    NONE,
    CelValue,
    Map,
    Optional,
    Timestamp,
    no_such_overload,
)

_OPTIONAL: Final = optional_of(A)
_TWO: Final = (_OPTIONAL, _OPTIONAL)
_LIST: Final = list_of(A)
_MAP: Final = map_of(A, B)


def optional_value(optional: Optional) -> CelValue:
    """Return the value of an optional, or raise an error."""
    if optional.value is MISSING:
        raise EvaluationError("optional_none", "optional.none() dereference")
    return optional.value


def is_zero(value: CelValue) -> bool:
    """Tell whether a value is empty or the zero value of its kind."""
    if isinstance(value, Timestamp):
        return value == ZERO_TIME
    if isinstance(value, Duration):
        return not value.nanos
    if isinstance(value, (str, bytes, list, tuple, dict, Map)):
        return not len(value)
    if value is None or isinstance(value, (bool, int, float)):
        return not value
    return False


def _of_non_zero(value: CelValue) -> Optional:
    return NONE if is_zero(value) else Optional(value)


def _has_value(given: Optional) -> bool:
    return given.present


def _first(elements: list[CelValue]) -> Optional:
    return Optional(elements[0]) if elements else NONE


def _last(elements: list[CelValue]) -> Optional:
    return Optional(elements[-1]) if elements else NONE


def _unwrap(elements: list[CelValue]) -> list[CelValue]:
    values = []
    for element in elements:
        if not isinstance(element, Optional):
            raise no_such_overload()
        if element.present:
            values.append(element.value)
    return values


def _library(otherwise: Callable[[CelValue], CelValue]) -> Library:
    """Return the library, whose choices do this with a value that is no optional."""
    either = Overload("optional_or_optional", _TWO, _OPTIONAL, otherwise, member=True)
    value = Overload("optional_orValue_value", (_OPTIONAL, A), A, otherwise, member=True)
    choices = (Function("or", (either,)), Function("orValue", (value,)))
    return Library("cel.lib.optional", (*_FUNCTIONS, *choices), {"optional_type": _OPTIONAL})


_FUNCTIONS: Final = (
    Function("optional.of", (Overload("optional_of", (A,), _OPTIONAL, Optional),)),
    Function(
        "optional.ofNonZeroValue",
        (Overload("optional_ofNonZeroValue", (A,), _OPTIONAL, _of_non_zero),),
    ),
    Function("optional.none", (Overload("optional_none", (), _OPTIONAL, lambda: NONE),)),
    Function(
        "value", (Overload("optional_value", (_OPTIONAL,), A, optional_value, member=True),)
    ),
    Function(
        "hasValue",
        (
            Overload("optional_hasValue", (_OPTIONAL,), BOOL, _has_value, member=True),
        ),
    ),
    Function(
        "_?._", (Overload("select_optional_field", (DYN, STRING), _OPTIONAL, unimplemented),)
    ),
    Function(
        "_[?_]",
        (
            Overload("list_optindex_optional_int", (_LIST, INT), _OPTIONAL, unimplemented),
            Overload(
                "optional_list_optindex_optional_int", (optional_of(_LIST), INT), _OPTIONAL,
                unimplemented,
            ),
            Overload("map_optindex_optional_value", (_MAP, A), optional_of(B), unimplemented),
            Overload(
                "optional_map_optindex_optional_value", (optional_of(_MAP), A), optional_of(B),
                unimplemented,
            ),
        ),
    ),
    Function(
        "_[_]",
        (
            Overload(
                "optional_list_index_int", (optional_of(_LIST), INT), _OPTIONAL, unimplemented
            ),
            Overload(
                "optional_map_index_value", (optional_of(_MAP), A), optional_of(B),
                unimplemented,
            ),
        ),
    ),
    Function("last", (Overload("list_last", (_LIST,), _OPTIONAL, _last, member=True),)),
    Function("first", (Overload("list_first", (_LIST,), _OPTIONAL, _first, member=True),)),
    Function(
        "optional.unwrap",
        (Overload("optional_unwrap", (list_of(_OPTIONAL),), _LIST, _unwrap),),
    ),
    Function(
        "unwrapOpt",
        (Overload("optional_unwrapOpt", (list_of(_OPTIONAL),), _LIST, _unwrap, member=True),),
    ),
)  # fmt: skip

OPTIONALS: Final = _library(identity)

OPTIONALS_1_37: Final = _library(unimplemented)
