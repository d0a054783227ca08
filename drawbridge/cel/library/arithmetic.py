"""The arithmetic operators: numbers within their limits, strings, lists and times."""

import math
from collections.abc import Callable
from typing import Final

from drawbridge.cel import times
from drawbridge.cel.declare import CallEstimate, Function, Operand, Overload
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library import costs
from drawbridge.cel.numbers import INT_MAX, INT_MIN, UINT_MAX
from drawbridge.cel.types import (
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    Type,
    list_of,
)
from drawbridge.cel.values import CelValue, Duration, Timestamp, Uint, actual_size

_LIST: Final = list_of(A)
_Meaning = Callable[..., CelValue]


def _overflow() -> EvaluationError:
    return EvaluationError("overflow", "integer overflow")


def _unsigned_overflow() -> EvaluationError:
    return EvaluationError("overflow", "unsigned integer overflow")


def add_ints(a: int, b: int) -> int:
    """Add two ints."""
    total = a + b
    if INT_MIN <= total <= INT_MAX:
        return total
    raise _overflow()


def _subtract_ints(a: int, b: int) -> int:
    rest = a - b
    if INT_MIN <= rest <= INT_MAX:
        return rest
    raise _overflow()


def _multiply_ints(a: int, b: int) -> int:
    product = a * b
    if INT_MIN <= product <= INT_MAX:
        return product
    raise _overflow()


def _divide_ints(a: int, b: int) -> int:
    if b == 0:
        raise EvaluationError("division_by_zero", "division by zero")
    quotient = abs(a) // abs(b)
    if (a < 0) != (b < 0):
        return -quotient
    if quotient > INT_MAX:
        raise _overflow()
    return quotient


def _modulo_ints(a: int, b: int) -> int:
    if b == 0:
        raise EvaluationError("division_by_zero", "modulus by zero")
    if a == INT_MIN and b == -1:
        raise _overflow()
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _negate_int(a: int) -> int:
    if a == INT_MIN:
        raise _overflow()
    return -a


def add_uints(a: int, b: int) -> Uint:
    """Add two uints."""
    total = int(a) + int(b)
    if total > UINT_MAX:
        raise _unsigned_overflow()
    return Uint(total)


def _subtract_uints(a: int, b: int) -> Uint:
    if b > a:
        raise _unsigned_overflow()
    return Uint(int(a) - int(b))


def _multiply_uints(a: int, b: int) -> Uint:
    product = int(a) * int(b)
    if product > UINT_MAX:
        raise _unsigned_overflow()
    return Uint(product)


def _divide_uints(a: int, b: int) -> Uint:
    if b == 0:
        raise EvaluationError("division_by_zero", "division by zero")
    return Uint(int(a) // int(b))


def _modulo_uints(a: int, b: int) -> Uint:
    if b == 0:
        raise EvaluationError("division_by_zero", "modulus by zero")
    return Uint(int(a) % int(b))


def _multiply_doubles(a: float, b: float) -> float:
    return a * b


def _divide_doubles(a: float, b: float) -> float:
    if b:
        return a / b
    if not a or math.isnan(a) or math.isnan(b):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _add_texts(a: str, b: str) -> str:
    return a + b


def _add_bytes(a: bytes, b: bytes) -> bytes:
    return a + b


def _add_lists(a: list[CelValue], b: list[CelValue]) -> list[CelValue]:
    return [*a, *b]


def add_durations(a: Duration, b: Duration) -> Duration:
    """Add two durations."""
    return times.duration_of(a.nanos + b.nanos)


def _subtract_time(moment: Timestamp, length: Duration) -> Timestamp:
    # cel-go negates the duration first, and the minimum has no positive counterpart.
    if length.nanos == INT_MIN:
        raise _overflow()
    return times.add(moment, -length.nanos)


def _sum_estimate(operands: tuple[Operand, ...]) -> CallEstimate:
    size = costs.add(operands[0].size, operands[1].size)
    return CallEstimate(costs.scale(size.max, costs.TRAVERSAL), size)


def _concatenation_estimate(operands: tuple[Operand, ...]) -> CallEstimate:
    return CallEstimate(1, costs.add(operands[0].size, operands[1].size))


def _sum_cost(args: tuple[CelValue, ...], _: CelValue) -> int:
    size = actual_size(args[0]) + actual_size(args[1])
    return math.ceil(size * costs.TRAVERSAL)


def _text_sum(id_: str, kind: Type, implementation: _Meaning) -> Overload:
    return Overload(id_, (kind, kind), kind, implementation, cost=_sum_cost, estimate=_sum_estimate)


def _same(id_: str, kind: Type, implementation: _Meaning) -> Overload:
    return Overload(id_, (kind, kind), kind, implementation)


FUNCTIONS: Final = (
    Function(
        "_+_",
        (
            _text_sum("add_bytes", BYTES, _add_bytes),
            _same("add_double", DOUBLE, lambda a, b: a + b),
            _same("add_duration_duration", DURATION, add_durations),
            Overload(
                "add_duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP,
                lambda length, moment: times.add(moment, length.nanos),
            ),
            Overload(
                "add_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP,
                lambda moment, length: times.add(moment, length.nanos),
            ),
            _same("add_int64", INT, add_ints),
            Overload(
                "add_list", (_LIST, _LIST), _LIST, _add_lists, estimate=_concatenation_estimate
            ),
            _text_sum("add_string", STRING, _add_texts),
            _same("add_uint64", UINT, add_uints),
        ),
    ),
    Function(
        "_/_",
        (
            _same("divide_double", DOUBLE, _divide_doubles),
            _same("divide_int64", INT, _divide_ints),
            _same("divide_uint64", UINT, _divide_uints),
        ),
    ),
    Function(
        "_%_",
        (_same("modulo_int64", INT, _modulo_ints), _same("modulo_uint64", UINT, _modulo_uints)),
    ),
    Function(
        "_*_",
        (
            _same("multiply_double", DOUBLE, _multiply_doubles),
            _same("multiply_int64", INT, _multiply_ints),
            _same("multiply_uint64", UINT, _multiply_uints),
        ),
    ),
    Function(
        "-_",
        (
            Overload("negate_double", (DOUBLE,), DOUBLE, lambda value: -value),
            Overload("negate_int64", (INT,), INT, _negate_int),
        ),
    ),
    Function(
        "_-_",
        (
            _same("subtract_double", DOUBLE, lambda a, b: a - b),
            _same(
                "subtract_duration_duration", DURATION,
                lambda a, b: times.duration_of(a.nanos - b.nanos),
            ),
            _same("subtract_int64", INT, _subtract_ints),
            Overload(
                "subtract_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP, _subtract_time
            ),
            Overload(
                "subtract_timestamp_timestamp", (TIMESTAMP, TIMESTAMP), DURATION, times.between
            ),
            _same("subtract_uint64", UINT, _subtract_uints),
        ),
    ),
)  # fmt: skip
