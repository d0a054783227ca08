"""Converts literals to values.

An invalid literal raises ValueError with a message for people.
"""

import math
import re
from collections.abc import Callable

from drawbridge.cel.lexer import BYTES, FLOAT, INT, STRING, UINT
from drawbridge.cel.values import Uint

_SIMPLE = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:[xX](..)|u(....)|U(........)|([0-3][0-7][0-7])|(.))|([^\\]+)", re.DOTALL
)
# Python refuses longer digit strings, and none of these fits a CEL int.
_DIGITS = 25


def integer(text: str, *, negative: bool = False) -> int:
    """Return the int of a decimal or hexadecimal literal."""
    value = _parse_digits(text, "int")
    value = -value if negative else value
    if not -(2**63) <= value < 2**63:
        raise ValueError("invalid int literal: it is not within 64 bits")
    return value


def unsigned(text: str) -> Uint:
    """Return the uint of a literal, including its suffix."""
    value = _parse_digits(text[:-1], "uint")
    if value >= 2**64:
        raise ValueError("invalid uint literal: it is not within 64 bits")
    return Uint(value)


def _parse_digits(text: str, kind: str) -> int:
    base = 16 if text.startswith("0x") else 10
    digits = text[2:].lstrip("0") if base == 16 else text.lstrip("0")
    if len(digits) > _DIGITS:
        raise ValueError(f"invalid {kind} literal: it is not within 64 bits")
    return int(digits or "0", base)


def double(text: str, *, negative: bool = False) -> float:
    """Return the double of a literal."""
    value = float(text)
    if math.isinf(value):
        raise ValueError("invalid double literal: it is too large")
    return -value if negative else value


def string(text: str) -> str:
    """Return the value of a string literal, which includes quotes and prefix."""
    inside, raw = _unquote(text)
    if raw or "\\" not in inside:
        return inside
    return "".join(map(_character, _ESCAPE.finditer(inside)))


def parse_bytes(text: str) -> bytes:
    """Return the value of a bytes literal."""
    inside, raw = _unquote(text[1:])
    if raw or "\\" not in inside:
        return inside.encode()
    return b"".join(map(_octet, _ESCAPE.finditer(inside)))


def _unquote(text: str) -> tuple[str, bool]:
    """Return the text between the quotes with normalized line ends, and whether it is raw."""
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    inside = text[3:-3] if text.startswith(("'''", '"""')) and len(text) >= 6 else text[1:-1]
    if "\r" in inside:
        inside = inside.replace("\r\n", "\n").replace("\r", "\n")
    return inside, raw


def _character(match: re.Match[str]) -> str:
    short, four, eight, octal, other, plain = match.groups()
    if plain is not None:
        return str(plain)
    if other is not None:
        return _SIMPLE.get(other, str(other))
    point = int(octal, 8) if octal else int(short or four or eight, 16)
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise ValueError(f"invalid unicode code point: there is no character {point:#x}")
    return chr(point)


def _octet(match: re.Match[str]) -> bytes:
    short, four, eight, octal, other, plain = match.groups()
    if plain is not None:
        return plain.encode()
    if other is not None:
        return _SIMPLE.get(other, other).encode()
    if four or eight:
        raise ValueError("unable to unescape string: bytes have no \\u and \\U, spell each as \\x")
    return bytes((int(octal, 8) if octal else int(short, 16),))


READERS: dict[str, Callable[[str], object]] = {
    STRING: string,
    BYTES: parse_bytes,
    INT: integer,
    UINT: unsigned,
    FLOAT: double,
}
WORDS = {"true": True, "false": False, "null": None}
