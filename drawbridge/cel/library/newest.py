"""The newest CEL libraries, where Kubernetes' versions still differ.

Only the public conformance tests use these; Kubernetes' environments do not. A function here
replaces all overloads of its name.
"""

import math
from collections.abc import Callable
from typing import Final

from drawbridge.cel import net
from drawbridge.cel.declare import Function, Library, Overload
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library.conversions import text_of
from drawbridge.cel.library.format import CLAUSES, Clauses, format_text
from drawbridge.cel.library.net import NETWORKS
from drawbridge.cel.library.sequences import LISTS
from drawbridge.cel.numbers import format_fixed
from drawbridge.cel.types import DYN, INT, IP, STRING, Type, list_of
from drawbridge.cel.values import (
    CelValue,
    Map,
    Timestamp,
    TypeValue,
    Uint,
    find,
    iterate,
    type_name,
)

_MOST_DECIMALS: Final = 1000


def _number(value: CelValue) -> float | int:
    if isinstance(value, float) or type(value) is int or isinstance(value, Uint):
        return value
    raise EvaluationError("format", f"this clause only takes numbers, was given {type_name(value)}")


def _decimal(value: CelValue, _: int | None) -> str:
    number = _number(value)
    return _double(number) if isinstance(number, float) else str(number)


def _double(number: float) -> str:
    return format_fixed(number) if math.isfinite(number) else _infinite(number)


def _infinite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def _with_decimals(letter: str) -> Callable[[CelValue, int | None], str]:
    def written(value: CelValue, precision: int | None) -> str:
        number = float(_number(value))
        if not math.isfinite(number):
            return _infinite(number)
        decimals = 6 if precision is None else precision
        if decimals > _MOST_DECIMALS:
            raise EvaluationError("format", f"at most {_MOST_DECIMALS} decimals are written")
        return f"{number:.{decimals}{letter}}"

    return written


def _string(value: CelValue, _: int | None) -> str:
    return _plain(value)


def _plain(value: CelValue) -> str:
    """Write a value without quotes."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join([_plain(element) for element in value])}]"
    if isinstance(value, (dict, Map)):
        entries = [(_plain(key), _plain(find(value, key))) for key in iterate(value)]
        return f"{{{', '.join([f'{key}: {held}' for key, held in sorted(entries)])}}}"
    return _scalar(value)


def _scalar(value: CelValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, Timestamp):
        return str(Timestamp(value.nanos))
    if type_name(value) in _WRITTEN:
        return text_of(value)
    raise EvaluationError("format", f"no string is made of a {type_name(value)}")


_WRITTEN: Final = frozenset({"string", "bytes", "bool", "int", "uint", "google.protobuf.Duration"})
_CLAUSES: Final[Clauses] = {
    **CLAUSES,
    "s": _string,
    "d": _decimal,
    "f": _with_decimals("f"),
    "e": _with_decimals("e"),
}


def _format(text: str, args: list[CelValue]) -> str:
    return format_text(text, args, _CLAUSES)


def _reverse(text: str) -> str:
    return text[::-1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not 0 <= start <= len(text):
        raise EvaluationError("index", f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part)
    if not 0 <= start <= len(text):
        raise EvaluationError("index", f"index out of range: {start}")
    return text.rfind(part, 0, start + len(part))


def _ip(text: str) -> net.Ip:
    """Parse an address; an IPv4-mapped IPv6 address becomes an IPv4 address."""
    if ":" in text and "." in text:
        raise EvaluationError("net", f"{text!r} mixes the forms of IPv4 and IPv6")
    return net.parse_any_ip(text)


def _others(library: Library, name: str) -> tuple[Overload, ...]:
    return next(one.overloads for one in library.functions if one.name == name)


def _positions(name: str, id_: str, implementation: Callable[..., CelValue]) -> Function:
    rows: tuple[tuple[str, tuple[Type, ...]], ...] = (
        (f"string_{id_}_string", (STRING, STRING)),
        (f"string_{id_}_string_int", (STRING, STRING, INT)),
    )
    return Function(name, tuple(Overload(*row, INT, implementation, member=True) for row in rows))


NEWEST: Final = Library(
    "newest",
    (
        Function(
            "format",
            (Overload("string_format", (STRING, list_of(DYN)), STRING, _format, member=True),),
        ),
        Function(
            "reverse",
            (
                *_others(LISTS, "reverse"),
                Overload("string_reverse", (STRING,), STRING, _reverse, member=True),
            ),
        ),
        _positions("indexOf", "index_of", _index_of),
        _positions("lastIndexOf", "last_index_of", _last_index_of),
        Function("ip", (Overload("string_to_ip", (STRING,), IP, _ip), *_others(NETWORKS, "ip"))),
    ),
)
