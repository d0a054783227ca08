"""cel-go's string functions, as in its version 2: positions count code points."""

import math
from collections.abc import Callable
from typing import Final

from drawbridge.cel.declare import (
    UNBOUNDED,
    CallEstimate,
    Function,
    Library,
    Operand,
    Overload,
    Range,
    members,
)
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library import costs
from drawbridge.cel.library.format import format_text
from drawbridge.cel.types import DYN, INT, STRING, Type, list_of
from drawbridge.cel.values import CelValue, actual_size

_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
# Go's definition of space; Python's includes four more control characters.
SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_QUOTED: Final = str.maketrans({
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
})  # fmt: skip
_TEXTS: Final = list_of(STRING)


def _strings(*, clamped: bool) -> Library:
    last = _last_index_of_clamped if clamped else _last_index_of
    return Library(
        "cel.lib.ext.strings",
        (
            members("charAt", ("string_char_at_int", (STRING, INT), STRING, _char_at)),
            _positions("indexOf", "index_of", _index_of_clamped if clamped else _index_of),
            _positions("lastIndexOf", "last_index_of", last),
            *_FUNCTIONS,
        ),
    )  # fmt: skip


def _out_of_range(at: int) -> EvaluationError:
    return EvaluationError("index", f"index out of range: {at}")


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise _out_of_range(at)
    return text[at : at + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start)


def _index_of_clamped(text: str, part: str, start: int = 0) -> int:
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start) if part else min(start, len(text))


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if not part:
        return len(text) if start is None else start
    return _rightmost(text, part, start)


def _last_index_of_clamped(text: str, part: str, start: int | None = None) -> int:
    if part or (start is not None and start < 0):
        return _rightmost(text, part, start)
    return len(text) if start is None else min(start, len(text))


def _rightmost(text: str, part: str, start: int | None) -> int:
    if start is None:
        return text.rfind(part)
    if start < 0:
        raise _out_of_range(start)
    # A start beyond the end finds nothing, although the search would go backwards.
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, max(limit, -1))


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        end = len(text)
    elif start > end:
        raise EvaluationError("index", f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if not 0 <= end <= len(text):
        raise _out_of_range(end)
    return text[start:end]


def _join(texts: list[CelValue], separator: str = "") -> str:
    parts = [text for text in texts if isinstance(text, str)]
    if len(parts) < len(texts):
        raise EvaluationError("list_elements", "join: invalid input: not a string")
    return separator.join(parts)


def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


def _join_cost(_: tuple[CelValue, ...], result: CelValue) -> int:
    return math.ceil(actual_size(result) * (2 * costs.TRAVERSAL))


def _replace_estimate(operands: tuple[Operand, ...]) -> CallEstimate:
    """Estimate the size of the result: fewest and longest, most and shortest matches."""
    text, old, new = (operand.size for operand in operands[:3])
    if old.min == 0:
        most, kept_most = min(text.max + 1, UNBOUNDED), text.max
    elif new.max <= old.min:
        most, kept_most = 0, text.max
    else:
        most, kept_most = _times(text.max, old.min), 0
    if old.max == 0:
        least, kept_least = min(text.min + 1, UNBOUNDED), text.min
    elif old.max <= new.min:
        least, kept_least = 0, text.min
    else:
        least, kept_least = _times(text.min, old.max), 0
    size = costs.add(costs.multiply(Range(least, most), new), Range(kept_least, kept_most))
    return CallEstimate(costs.scale(text.max, 2 * costs.TRAVERSAL), size)


def _times(text: int, part: int) -> int:
    return min(math.ceil(float(text) / float(part)), UNBOUNDED)


def _split_estimate(operands: tuple[Operand, ...]) -> CallEstimate:
    size = operands[0].size
    most = size.max
    if len(operands) > 2:
        limit = operands[2].literal
        if isinstance(limit, int) and not isinstance(limit, bool):
            most = limit % 2**64
    return CallEstimate(costs.scale(size.max, 2 * costs.TRAVERSAL), Range(0, most))


def _join_estimate(operands: tuple[Operand, ...]) -> CallEstimate:
    count = operands[0].size
    size = costs.multiply(count, operands[0].items) if operands[0].type.params else Range(0, 0)
    if len(operands) > 1:
        separators = Range(max(count.min - 1, 0), max(count.max - 1, 0))
        size = costs.add(size, costs.multiply(operands[1].size, separators))
    return CallEstimate(costs.scale(size.max, costs.TRAVERSAL), size)


_Row = tuple[str, tuple[Type, ...], Type, Callable[..., CelValue]]


def _going_over(name: str, *rows: _Row) -> Function:
    return Function(
        name,
        tuple(Overload(*row, member=True) for row in rows),
        cost=costs.of_argument(0),
        estimate=costs.estimate_argument(0, size=costs.same_size),
    )


def _positions(name: str, id_: str, implementation: Callable[..., CelValue]) -> Function:
    rows: tuple[_Row, ...] = (
        (f"string_{id_}_string", (STRING, STRING), INT, implementation),
        (f"string_{id_}_string_int", (STRING, STRING, INT), INT, implementation),
    )
    return Function(
        name,
        tuple(Overload(*row, member=True) for row in rows),
        cost=costs.over_everything,
        estimate=costs.estimate_elements,
    )


_FUNCTIONS: Final = (
    _going_over(
        "lowerAscii", ("string_lower_ascii", (STRING,), STRING, lambda text: text.translate(_LOWER))
    ),
    Function(
        "replace",
        tuple(
            Overload(id_, (STRING, STRING, STRING, *rest), STRING, _replace, member=True)
            for id_, rest in (
                ("string_replace_string_string", ()), ("string_replace_string_string_int", (INT,))
            )
        ),
        cost=costs.of_argument(0, 2 * costs.TRAVERSAL),
        estimate=_replace_estimate,
    ),
    Function(
        "split",
        (
            Overload("string_split_string", (STRING, STRING), _TEXTS, _split, member=True),
            Overload("string_split_string_int", (STRING, STRING, INT), _TEXTS, _split, member=True),
        ),
        cost=costs.of_argument(0, 2 * costs.TRAVERSAL),
        estimate=_split_estimate,
    ),
    _going_over(
        "substring",
        ("string_substring_int", (STRING, INT), STRING, _substring),
        ("string_substring_int_int", (STRING, INT, INT), STRING, _substring),
    ),
    _going_over("trim", ("string_trim", (STRING,), STRING, lambda text: text.strip(SPACES))),
    _going_over(
        "upperAscii", ("string_upper_ascii", (STRING,), STRING, lambda text: text.translate(_UPPER))
    ),
    Function(
        "format",
        (
            Overload(
                "string_format", (STRING, list_of(DYN)), STRING, format_text, member=True,
                cost=costs.of_argument(0), estimate=costs.estimate_argument(0),
            ),
        ),
    ),
    Function(
        "strings.quote",
        (
            Overload(
                "strings_quote", (STRING,), STRING, _quote, cost=costs.of_argument(0),
                estimate=costs.estimate_argument(
                    0, size=lambda size: Range(size.min + 2, (size.max * 2 + 2) % 2**64)
                ),
            ),
        ),
    ),
    Function(
        "join",
        (
            Overload("list_join", (_TEXTS,), STRING, _join, member=True),
            Overload("list_join_string", (_TEXTS, STRING), STRING, _join, member=True),
        ),
        cost=_join_cost,
        estimate=_join_estimate,
    ),
)  # fmt: skip

# Up to Kubernetes 1.36, and since 1.37.
STRINGS: Final = _strings(clamped=False)
STRINGS_1_37: Final = _strings(clamped=True)
