"""The well-known protobuf messages that CEL converts to values: wrappers, times and JSON.

For example, `google.protobuf.Int64Value{value: 5}` is 5. Other messages are not supported.
"""

import base64
import math
import struct
from collections.abc import Callable, Mapping

from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.times import Duration, Timestamp
from drawbridge.cel.types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
)
from drawbridge.cel.values import CelValue, Uint, find, iterate, make_map, type_name

_PACKAGE = "google.protobuf."
_STRUCT = map_of(STRING, DYN)
_SECOND = 10**9
# All integers up to this number are exact doubles; JSON represents larger ones as text.
_EXACT = 2**53 - 1


def _wrapper(wrapped: Type) -> Type:
    return Type("wrapper", params=(wrapped,))


_WRAPPERS: Mapping[str, tuple[Type, CelValue]] = {
    "BoolValue": (BOOL, False),
    "BytesValue": (BYTES, b""),
    "DoubleValue": (DOUBLE, 0.0),
    "FloatValue": (DOUBLE, 0.0),
    "Int32Value": (INT, 0),
    "Int64Value": (INT, 0),
    "StringValue": (STRING, ""),
    "UInt32Value": (UINT, Uint(0)),
    "UInt64Value": (UINT, Uint(0)),
}
TYPES: Mapping[str, Type] = {
    **{_PACKAGE + name: _wrapper(type_) for name, (type_, _) in _WRAPPERS.items()},
    _PACKAGE + "Any": ANY,
    _PACKAGE + "Duration": DURATION,
    _PACKAGE + "ListValue": list_of(DYN),
    _PACKAGE + "Struct": _STRUCT,
    _PACKAGE + "Timestamp": TIMESTAMP,
    _PACKAGE + "Value": DYN,
}
_TIME = {"seconds": INT, "nanos": INT}
FIELDS: Mapping[str, Mapping[str, Type]] = {
    **{_PACKAGE + name: {"value": type_} for name, (type_, _) in _WRAPPERS.items()},
    _PACKAGE + "Any": {"type_url": STRING, "value": BYTES},
    _PACKAGE + "Duration": _TIME,
    _PACKAGE + "ListValue": {"values": list_of(DYN)},
    _PACKAGE + "Struct": {"fields": _STRUCT},
    _PACKAGE + "Timestamp": _TIME,
    _PACKAGE + "Value": {
        "null_value": INT,
        "number_value": DOUBLE,
        "string_value": STRING,
        "bool_value": BOOL,
        "struct_value": _STRUCT,
        "list_value": list_of(DYN),
    },
}


def construct(name: str, fields: Mapping[str, CelValue]) -> CelValue:
    """Return the value of a message with the given `fields`."""
    short = name.removeprefix(".").removeprefix(_PACKAGE)
    if short in _WRAPPERS:
        value = fields.get("value", _WRAPPERS[short][1])
        return _NARROW[short](value) if short in _NARROW else value
    if short in {"Duration", "Timestamp"}:
        return _time(short, fields)
    if short in {"Struct", "ListValue", "Value"}:
        return _json(_content(short, fields))
    raise EvaluationError("conversion", f"a message of type {name} is no value")


def _content(short: str, fields: Mapping[str, CelValue]) -> CelValue:
    if "null_value" in fields or (not fields and short == "Value"):
        return None
    if not fields:
        return make_map(()) if short == "Struct" else []
    return next(iter(fields.values()))


def _within(low: int, high: int, make: Callable[[int], CelValue]) -> Callable[[CelValue], CelValue]:
    def narrow(value: CelValue) -> CelValue:
        if not isinstance(value, int) or not low <= value <= high:
            raise EvaluationError("overflow", "integer overflow")
        return make(value)

    return narrow


def _single(value: CelValue) -> CelValue:
    """Return the double rounded to single precision."""
    if not isinstance(value, float):
        raise EvaluationError("conversion", "unsupported conversion to float")
    try:
        single: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return single


_NARROW: Mapping[str, Callable[[CelValue], CelValue]] = {
    "FloatValue": _single,
    "Int32Value": _within(-(2**31), 2**31 - 1, int),
    "UInt32Value": _within(0, 2**32 - 1, Uint),
}


def _time(short: str, fields: Mapping[str, CelValue]) -> CelValue:
    seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        raise EvaluationError("conversion", "unsupported conversion to int")
    total = seconds * _SECOND + nanos
    return Duration(total) if short == "Duration" else Timestamp(total)


def _json(value: CelValue) -> CelValue:
    """Return the JSON value: numbers are doubles; a value without a JSON form becomes text."""
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return float(value) if abs(value) <= _EXACT else str(int(value))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Duration | Timestamp):
        return str(value)
    if isinstance(value, list | tuple):
        return [_json(element) for element in value]
    if type_name(value) == "map":
        return make_map((_key(key), _json(find(value, key))) for key in iterate(value))
    raise EvaluationError("conversion", f"a value of type {type_name(value)} is no JSON")


def _key(key: CelValue) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)
