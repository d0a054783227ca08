"""Go's numbers: int64 and uint64 limits, and parsing and formatting of floats."""

import math
import re
from decimal import Decimal
from typing import Final

INT_MAX: Final = 2**63 - 1
INT_MIN: Final = -(2**63)
UINT_MAX: Final = 2**64 - 1

_TWO_63: Final = 2.0**63
_TWO_64: Final = 2.0**64
_LONGEST: Final = 20
_INT: Final = re.compile(r"[+-]?[0-9]+")
# Possessive quantifiers, so that a long text without a match fails in one pass.
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_HEX: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]++(?:\.[0-9a-fA-F]*+)?|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++"
)
# Underscores that are not between digits, of a decimal or a hexadecimal number.
_MISPLACED: Final = tuple(
    re.compile(rf"(?<!{digit})(?<![xX])_|_(?!{digit})|^_") for digit in ("[0-9]", "[0-9a-fA-F]")
)
_SPECIAL: Final = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE | re.ASCII)


def divide_truncated(value: int, unit: int) -> tuple[int, int]:
    """Divide and truncate towards zero; the remainder has the sign of the value."""
    whole = abs(value) // unit
    if value < 0:
        whole = -whole
    return whole, value - whole * unit


def wrap_int64(value: int) -> int:
    """Wrap a number around to the range of an int64."""
    return (value + 2**63) % 2**64 - 2**63


def parse_digits(digits: str) -> int:
    """Parse decimal digits; a number beyond all 64-bit integers becomes one that is, too.

    Python refuses to parse thousands of digits, even if they are zeros.
    """
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= _LONGEST else 10**_LONGEST


def parse_int(text: str) -> int | None:
    """Parse a decimal int64; None if it is invalid."""
    if not _INT.fullmatch(text):
        return None
    value = parse_digits(text.lstrip("+-"))
    signed = -value if text[0] == "-" else value
    return signed if INT_MIN <= signed <= INT_MAX else None


def parse_uint(text: str) -> int | None:
    """Parse a decimal uint64 without a sign; None if it is invalid."""
    if not text.isascii() or not text.isdigit():
        return None
    value = parse_digits(text)
    return value if value <= UINT_MAX else None


def parse_float(text: str) -> float | None:
    """Parse a double as Go's ParseFloat does; None if it is invalid or out of range."""
    if _SPECIAL.fullmatch(text):
        return float(text)
    plain = _without_underscores(text)
    if plain is None:
        return None
    try:
        if _DECIMAL.fullmatch(plain):
            value = float(plain)
        elif _HEX.fullmatch(plain):
            value = float.fromhex(plain)
        else:
            return None
    except OverflowError:
        return None
    return None if math.isinf(value) else value


def to_int(value: float) -> int | None:
    """Truncate a double to an int64; None if it does not fit (both limits do not fit)."""
    if -_TWO_63 < value < _TWO_63:
        return int(value)
    return None


def to_uint(value: float) -> int | None:
    """Truncate a double to a uint64; None if it does not fit."""
    if 0 <= value < _TWO_64:
        return int(value)
    return None


def format_shortest(value: float) -> str:
    """Format a double as Go's %g does: the fewest digits that parse to the same value."""
    special = _special(value)
    if special:
        return special
    sign, digits, point = _digits(value)
    if not -4 <= point - 1 < 6:
        return sign + _scientific(digits, point - 1)
    return sign + _plain(digits, point)


def format_fixed(value: float) -> str:
    """Format a double without an exponent, with the fewest digits that parse to the same value."""
    special = _special(value)
    if special:
        return special
    sign, digits, point = _digits(value)
    return sign + _plain(digits, point)


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return ""


def _digits(value: float) -> tuple[str, str, int]:
    """Return the sign, the shortest digits and the position of the decimal point."""
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits))
    point = len(text) + int(exponent)
    text = text.rstrip("0") or "0"
    return "-" if sign else "", text, point if text != "0" else 1


def _plain(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits
    if point >= len(digits):
        return digits.ljust(point, "0")
    return f"{digits[:point]}.{digits[point:]}"


def _scientific(digits: str, exponent: int) -> str:
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _without_underscores(text: str) -> str | None:
    """Remove underscores, which must be between digits or after a base prefix."""
    if "_" not in text:
        return text
    body = text[1:] if text[:1] in {"+", "-"} else text
    hexadecimal = body[:2].lower() == "0x"
    checked = body[1:] if hexadecimal else body
    if _MISPLACED[hexadecimal].search(checked):
        return None
    return text.replace("_", "")
