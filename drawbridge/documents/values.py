"""JSON values of any kind, and how Kubernetes resolves unquoted YAML scalars.

Kubernetes reads manifests by the rules of YAML 1.1, with exceptions of its Go library: `on`, `y`
and `no` are booleans, `017` and `0o17` are 15, `1_000` is 1000, `1:20` and dates are text, and
integers beyond 64 bits become floats.
"""

import math
import re
import struct
from collections.abc import Mapping

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]

_TRUE = "y Y yes Yes YES true True TRUE on On ON"
_FALSE = "n N no No NO false False FALSE off Off OFF"
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(_TRUE.split(" "), True),
    **dict.fromkeys(_FALSE.split(" "), False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
}
# The first characters of all scalars that may not be text.
_NOT_TEXT = frozenset("yYnNtTfFoO~0123456789+-.")
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))")
_BASES = (16, 2, 8, 10)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# Longer integers exceed 64 bits, except with many leading zeros.
_INTEGER_LENGTH = 80
_LARGEST_32_BITS = 3.4e38


def as_mapping(value: Value) -> Mapping[str, Value]:
    """Return the value if it is a map, else an empty map. An empty `requests:` is null."""
    return value if isinstance(value, dict) else {}


def as_list(value: Value) -> list[Value]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def resolve_scalar(text: str) -> Value:
    """Return the value of a scalar without quotes and tags."""
    if text and text[0] not in _NOT_TEXT:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "yYnNtTfFoO~":
        return text
    # A number that starts with its point is text if it has underscores.
    digits = text if text[0] == "." else text.replace("_", "")
    number: float | None = _integer(digits)
    if number is None and _FLOAT.fullmatch(digits):
        number = float(digits)
    return text if number is None or math.isinf(number) else number


def _integer(digits: str) -> int | None:
    match = _INTEGER.fullmatch(digits) if len(digits) <= _INTEGER_LENGTH else None
    if match is None:
        return None
    sign, *by_base = match.groups()
    number = next(int(t, base) for t, base in zip(by_base, _BASES, strict=True) if t is not None)
    if sign == "-":
        number = -number
    # An explicit sign makes the integer signed, with one bit less.
    return number if -(2**63) <= number < 2 ** (63 if sign else 64) else None


def key_text(value: Value) -> str | None:
    """Return the text that Kubernetes makes of a scalar key; None if it refuses the key."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() if value < 2**63:
            return str(value)
        case float() if math.isfinite(value):
            return _short_float(value)
        case _:
            return None


def _short_float(value: float) -> str:
    """Write a float as Go does with 32 bits: shortest form, with an exponent from a million."""
    try:
        narrow = _as_32_bits(value)
    except OverflowError:
        return "-.inf" if value < 0 else ".inf"
    for places in range(9):
        text = f"{narrow:.{places}e}"
        if abs(float(text)) < _LARGEST_32_BITS and _as_32_bits(float(text)) == narrow:
            break
    exponent = int(text.rpartition("e")[2])
    return text if not -4 <= exponent < 6 else f"{narrow:.{max(0, places - exponent)}f}"


def _as_32_bits(value: float) -> float:
    narrow: float = struct.unpack("f", struct.pack("f", value))[0]
    return narrow


def equal_json(value: Value, other: Value) -> bool:
    """Whether two values are equal as JSON: true is not 1, and 1 is not 1.0."""
    if value is other:
        return True
    if type(value) is not type(other):
        return False
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(
            equal_json(v, other[k]) for k, v in value.items()
        )
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(equal_json, value, other))
    return value == other
