"""The function `string.format`: its clauses and their output.

`%f` and `%e` write doubles as cel-go's printer for American English does, with its quirks: the
precision of `%e` is a width, and large precisions wrap around.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library.conversions import text_of
from drawbridge.cel.numbers import INT_MAX, parse_digits
from drawbridge.cel.types import Type
from drawbridge.cel.values import (
    CelValue,
    Duration,
    Map,
    Timestamp,
    TypeValue,
    Uint,
    find,
    iterate,
    type_name,
)

_SUPERSCRIPTS: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# cel-go's printer does not parse a precision beyond this as a number.
_GREATEST_PRECISION: Final = 10_000_009
_SHORT: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip

_KINDS: Final = {
    "s": frozenset({
        "list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration",
        "type", "null",
    }),
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": frozenset({"int", "uint", "bool"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "X": frozenset({"int", "uint", "string", "bytes"}),
    "o": frozenset({"int", "uint"}),
}  # fmt: skip
_WANTED: Final = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
    "types, durations, and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "X": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}


@dataclass(frozen=True, slots=True)
class Clause:
    """One `%` clause: the letter, and the precision if it has one."""

    letter: str
    precision: int | None = None


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument before evaluation: its node, type and parts.

    `parts` are the elements of a list literal, or the keys and values of a map literal in order.
    """

    node: int
    type: Type
    parts: tuple["Argument", ...] = ()


@dataclass(frozen=True, slots=True)
class FormatProblem:
    """The error of a call of `format`, and the index of the argument if it has one."""

    message: str
    node: int | None = None


def format_text(text: str, args: Sequence[CelValue]) -> str:
    """Format the arguments."""
    pieces: list[str] = []
    position = 0
    for piece in _pieces(text, len(args)):
        if isinstance(piece, Clause):
            try:
                written = _CLAUSES[piece.letter](args[position], piece.precision)
            except EvaluationError as problem:
                raise _error(f"error during formatting: {problem.message}") from None
            position += 1
        else:
            written = piece
        pieces.append(written)
    return "".join(pieces)


def check_format(text: str, arguments: Sequence[Argument]) -> FormatProblem | None:
    """Return the errors of a constant format string with literal arguments."""
    used = 0
    try:
        for piece in _pieces(text, len(arguments)):
            if isinstance(piece, str):
                continue
            wrong = _misfit(piece.letter, arguments[used])
            if wrong is not None:
                message = f"{_WANTED[piece.letter]}, was given {_shown(wrong.type)}"
                return FormatProblem(f"error during formatting: {message}", wrong.node)
            used += 1
    except EvaluationError as problem:
        return FormatProblem(problem.message)
    if len(arguments) > used:
        counts = f"expected {used}, got {len(arguments)}"
        return FormatProblem(f"too many arguments supplied to string.format ({counts})")
    return None


def quoted(text: str) -> str:
    """Quote a text as Go does; escape all characters that are not printable."""
    return '"' + "".join(_SHORT.get(char) or _escaped(char) for char in text) + '"'


def _pieces(text: str, count: int) -> Iterator[str | Clause]:
    """Yield the literal pieces and clauses of a text with `count` arguments."""
    at = used = 0
    while at < len(text):
        percent = text.find("%", at)
        if percent < 0:
            yield text[at:]
            return
        yield text[at:percent]
        if text[percent : percent + 2] == "%%":
            yield "%"
            at = percent + 2
            continue
        if used >= count:
            raise _error(f"index {used} out of range")
        if percent + 1 >= len(text):
            raise _error("unexpected end of string")
        used += 1
        clause, at = _clause(text, percent + 1)
        yield clause


def _clause(text: str, at: int) -> tuple[Clause, int]:
    precision = None
    if text[at] == ".":
        end = at + 1
        while end < len(text) and text[end] in "0123456789":
            end += 1
        precision = _precision(text[at + 1 : end], ended=end >= len(text))
        at = end
    if text[at] not in _KINDS:
        problem = f'unrecognized formatting clause "{text[at]}"'
        raise _error(f"could not parse formatting clause: {problem}")
    return Clause(text[at], precision), at + 1


def _precision(digits: str, *, ended: bool) -> int:
    problem = ""
    if ended:
        problem = "could not find end of precision specifier"
    elif not digits or parse_digits(digits) > INT_MAX:
        problem = f'error while converting precision to integer: "{digits}"'
    if problem:
        raise _error(f"could not parse formatting clause: error while parsing precision: {problem}")
    return parse_digits(digits)


def _misfit(letter: str, argument: Argument) -> Argument | None:
    """Return the argument, or for `%s` the part of it, that the clause cannot write."""
    kind = argument.type.kind
    if kind == "wrapper":
        kind = argument.type.params[0].kind
    if kind != "dyn" and kind not in _KINDS[letter]:
        return argument
    for part in argument.parts if letter == "s" else ():
        wrong = _misfit(letter, part)
        if wrong is not None:
            return wrong
    return None


def _shown(type_: Type) -> str:
    return type_.name or type_.kind


def _error(message: str) -> EvaluationError:
    return EvaluationError("format", message)


def _unfit(letter: str, value: CelValue) -> EvaluationError:
    return _error(f"{_WANTED[letter]}, was given {type_name(value)}")


def _string(value: CelValue, _: int | None) -> str:
    if isinstance(value, (list, tuple)):
        return _list(value)
    if isinstance(value, (dict, Map)):
        return _map(value)
    return _scalar(value)


def _scalar(value: CelValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, (str, bool, int, float, bytes, Timestamp, Duration)):
        return text_of(value)
    raise _unfit("s", value)


def _list(value: Sequence[CelValue]) -> str:
    return f"[{', '.join([_element(element) for element in value])}]"


def _map(value: CelValue) -> str:
    entries = []
    for key in iterate(value):
        if not isinstance(key, (str, int)):
            raise _error(f"no formatting function for map key of type {type_name(key)}")
        entries.append((_element(key), _element(find(value, key))))
    entries.sort(key=lambda entry: entry[0])
    return f"{{{', '.join([f'{key}:{held}' for key, held in entries])}}}"


def _element(value: CelValue) -> str:
    """Write an element of a list or map; as a CEL literal if possible."""
    if isinstance(value, (list, tuple)):
        return _list(value)
    if isinstance(value, (dict, Map)):
        return _map(value)
    return _literal(value)


def _literal(value: CelValue) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return "b" + quoted(text_of(value))
    if isinstance(value, float):
        return f"{value:.6f}" if math.isfinite(value) else quoted(text_of(value))
    if isinstance(value, (Timestamp, Duration)):
        name = "timestamp" if isinstance(value, Timestamp) else "duration"
        return f'{name}("{value}")'
    if value is None or isinstance(value, (bool, int, TypeValue)):
        return _scalar(value)
    raise _error(f"no formatting function for {type_name(value)}")


def _decimal(value: CelValue, _: int | None) -> str:
    return str(_integer("d", value))


def _octal(value: CelValue, _: int | None) -> str:
    return f"{_integer('o', value):o}"


def _binary(value: CelValue, _: int | None) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{_integer('b', value):b}"


def _hex(value: CelValue, _: int | None) -> str:
    if isinstance(value, str):
        return value.encode(errors="replace").hex()
    if isinstance(value, bytes):
        return value.hex()
    return f"{_integer('x', value):x}"


def _integer(letter: str, value: CelValue) -> int:
    if type(value) is int or isinstance(value, Uint):
        return value
    raise _unfit(letter, value)


def _double(letter: str, value: CelValue) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    raise _unfit(letter, value)


def _fixed(value: CelValue, precision: int | None) -> str:
    number = _double("f", value)
    if precision is not None and precision > _GREATEST_PRECISION:
        return "%!(NOVERB)"
    if not math.isfinite(number):
        return _infinite(number)
    # The printer counts the decimals in one byte.
    return f"{number or 0.0:,.{6 if precision is None else precision % 256}f}"


def _scientific(value: CelValue, precision: int | None) -> str:
    number = _double("e", value)
    if precision is not None and precision > _GREATEST_PRECISION:
        return "%!(NOVERB)"
    # cel-go passes the precision as a width, which the printer counts in two bytes.
    width = 6 if precision is None else precision % 65536
    if not math.isfinite(number):
        return _infinite(number).rjust(width)
    mantissa, _, exponent = f"{number or 0.0:e}".partition("e")
    return (
        f"{mantissa}\N{MULTIPLICATION SIGN}10{exponent.lstrip('+').translate(_SUPERSCRIPTS)}".rjust(
            width
        )
    )


def _infinite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "∞" if number > 0 else "-∞"


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# The output of each clause letter for a value and a precision.
_CLAUSES: Final[Mapping[str, Callable[[CelValue, int | None], str]]] = {
    "s": _string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hex,
    "X": lambda value, precision: _hex(value, precision).upper(),
    "o": _octal,
}
