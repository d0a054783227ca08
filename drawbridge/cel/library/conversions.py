"""The conversion functions: `int`, `string`, `timestamp` and others."""

from collections.abc import Callable
from typing import Final

from drawbridge.cel import times
from drawbridge.cel.declare import Function, Overload, Range
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library import costs
from drawbridge.cel.numbers import (
    INT_MAX,
    format_shortest,
    parse_float,
    parse_int,
    parse_uint,
    to_int,
    to_uint,
)
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
    type_of,
)
from drawbridge.cel.values import CelValue, Duration, Timestamp, Uint, type_name, type_value

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def identity(value: CelValue) -> CelValue:
    """Return the value unchanged."""
    return value


def unconvertible(value: CelValue, to: str) -> EvaluationError:
    """Return the error of a conversion that fails."""
    return EvaluationError(
        "conversion", f"type conversion error from '{type_name(value)}' to '{to}'"
    )


def text_of(value: CelValue) -> str:
    """Return the result of `string()` for a value of a kind that it accepts."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_shortest(value)
    if isinstance(value, bytes):
        return _decode(value)
    return str(value)


def _no_duration(value: int) -> CelValue:
    raise unconvertible(value, "google.protobuf.Duration")


def _bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise unconvertible(text, "bool")


def _double(text: str) -> float:
    value = parse_float(text)
    if value is None:
        raise unconvertible(text, "double")
    return value


def _int_of_double(value: float) -> int:
    whole = to_int(value)
    if whole is None:
        raise EvaluationError("overflow", "integer overflow")
    return whole


def _int_of_text(text: str) -> int:
    value = parse_int(text)
    if value is None:
        raise unconvertible(text, "int")
    return value


def _int_of_uint(value: Uint) -> int:
    if value > INT_MAX:
        raise EvaluationError("overflow", "integer overflow")
    return int(value)


def _nanos(value: Duration) -> int:
    return value.nanos


def _seconds(value: Timestamp) -> int:
    return value.nanos // times.SECOND


def _uint_of_double(value: float) -> Uint:
    whole = to_uint(value)
    if whole is None:
        raise EvaluationError("overflow", "unsigned integer overflow")
    return Uint(whole)


def _uint_of_int(value: int) -> Uint:
    if value < 0:
        raise EvaluationError("overflow", "unsigned integer overflow")
    return Uint(value)


def _uint_of_text(text: str) -> Uint:
    value = parse_uint(text)
    if value is None:
        raise unconvertible(text, "uint")
    return Uint(value)


def _encode(text: str) -> bytes:
    return text.encode(errors="replace")


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise EvaluationError(
            "conversion", "invalid UTF-8 in bytes, cannot convert to string"
        ) from None


def _grown(given: Range) -> Range:
    return Range(given.min, given.max * 4 % 2**64)


def _shrunk(given: Range) -> Range:
    return Range(given.min // 4, given.max)


def _to(
    id_: str,
    from_: Type,
    to: Type,
    implementation: Callable[..., CelValue],
    size: Callable[[Range], Range] | None = None,
) -> Overload:
    if size is None:
        return Overload(id_, (from_,), to, implementation)
    cost = costs.of_argument(0)
    estimate = costs.estimate_argument(0, size=size)
    return Overload(id_, (from_,), to, implementation, cost=cost, estimate=estimate)


def _conversion(name: str, to: Type, *rows: tuple[str, Type, Callable[..., CelValue]]) -> Function:
    return Function(
        name, tuple(_to(id_, from_, to, implementation) for id_, from_, implementation in rows)
    )


_ENCODE: Final = _to("string_to_bytes", STRING, BYTES, _encode, _grown)
_INT: Final = _conversion(
    "int", INT,
    ("int64_to_int64", INT, identity),
    ("double_to_int64", DOUBLE, _int_of_double),
    ("duration_to_int64", DURATION, _nanos),
    ("string_to_int64", STRING, _int_of_text),
    ("timestamp_to_int64", TIMESTAMP, _seconds),
    ("uint64_to_int64", UINT, _int_of_uint),
)  # fmt: skip
_STRING: Final = Function(
    "string",
    (
        _to("string_to_string", STRING, STRING, identity),
        _to("bool_to_string", BOOL, STRING, text_of),
        _to("bytes_to_string", BYTES, STRING, _decode, _shrunk),
        _to("double_to_string", DOUBLE, STRING, format_shortest),
        _to("duration_to_string", DURATION, STRING, str),
        _to("int64_to_string", INT, STRING, str),
        _to("timestamp_to_string", TIMESTAMP, STRING, str),
        _to("uint64_to_string", UINT, STRING, int.__repr__),
    ),
)

_DURATION: Final = Function(
    "duration",
    (
        _to("duration_to_duration", DURATION, DURATION, identity),
        _to("string_to_duration", STRING, DURATION, times.parse_duration),
    ),
)
FUNCTIONS: Final = (
    Function("type", (Overload("type", (A,), type_of(A), type_value),)),
    Function("dyn", (Overload("to_dyn", (A,), DYN, identity),)),
    _conversion(
        "bool", BOOL,
        ("bool_to_bool", BOOL, identity),
        ("string_to_bool", STRING, _bool),
    ),
    Function("bytes", (_to("bytes_to_bytes", BYTES, BYTES, identity), _ENCODE)),
    _conversion(
        "double", DOUBLE,
        ("double_to_double", DOUBLE, identity),
        ("int64_to_double", INT, float),
        ("string_to_double", STRING, _double),
        ("uint64_to_double", UINT, float),
    ),
    _INT,
    _STRING,
    _conversion(
        "timestamp", TIMESTAMP,
        ("timestamp_to_timestamp", TIMESTAMP, identity),
        ("int64_to_timestamp", INT, times.timestamp_of_seconds),
        ("string_to_timestamp", STRING, times.parse_timestamp),
    ),
    _conversion(
        "uint", UINT,
        ("uint64_to_uint64", UINT, identity),
        ("double_to_uint64", DOUBLE, _uint_of_double),
        ("int64_to_uint64", INT, _uint_of_int),
        ("string_to_uint64", STRING, _uint_of_text),
    ),
    _DURATION,
)  # fmt: skip
# Up to Kubernetes 1.36, an additional declared conversion always fails.
INT_TO_DURATION: Final = Function(
    "duration", (_to("int64_to_duration", INT, DURATION, _no_duration),)
)
