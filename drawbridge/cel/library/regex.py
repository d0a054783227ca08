"""Regular expressions: CEL's `matches` and Kubernetes' `find` and `findAll`.

Patterns are RE2 patterns, which do not backtrack: the size of the text and of the program that the
pattern compiles to bounds the time. The text of a pattern bounds its program before it is built.
"""

import re
from functools import lru_cache
from typing import Final, Protocol, cast

import re2

from drawbridge.cel.declare import (
    CallEstimate,
    Function,
    Library,
    Operand,
    Overload,
    Range,
)
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.frame import Cancelled
from drawbridge.cel.library import costs
from drawbridge.cel.meter import MOST_WORK, exceeded
from drawbridge.cel.types import INT, STRING, list_of
from drawbridge.cel.values import CelValue

REGEX_FUNCTIONS: Final = frozenset({"matches", "find", "findAll"})
# Constant patterns of one expression that are paid once in an evaluation, not in each call.
MOST_PATTERNS: Final = 32
# Go accepts programs of three million instructions; `\pL` has 1,200, and `.{1000}` has 8,000.
_MOST_INSTRUCTIONS: Final = 10_000
# The smallest limit that lets RE2 build such a program; it also holds the states of a search.
_MEMORY: Final = 1 << 20
_KEPT: Final = 64
# The work of building a pattern and of using it, in the unit of `drawbridge.cel.meter`.
_BUILD: Final = 600
_BUILD_INSTRUCTION: Final = 10
_SEARCH: Final = 60
_FOUND: Final = 100
_INSTRUCTIONS_PER_UNIT: Final = 4  # of the program, for each byte of the text
# Matches a single byte in C++; Go does not support it.
_BYTE: Final = re.compile(r"(?:[^\\]|\\[^CQ]|\\Q(?s:.*?)(?:\\E|\Z))*?\\C")
# Go requires plain letters in group names, and limits the nesting of groups.
_FOREIGN_NAME: Final = re.compile(r"(?<!\\)\(\?P?<[^>]*[^\x00-\x7f]")
_DEEPEST: Final = 1000
_DEEP: Final = re.compile(rf"\({{{_DEEPEST + 1}}}")
# The parts of a pattern, as far as they differ in the size of their programs.
_PART: Final = re.compile(
    r"(?P<unicode>\\[pP](?:\{[^}]*\}|.))"
    r"|(?P<text>\\Q.*?(?:\\E|\Z))"
    r"|(?P<set>\[\^?\]?(?:\\[pP]\{[^}]*\}|\\.|\[:\^?[a-z]+:\]|[^\]\\])*\])"
    r"|(?P<unclosed>\[.*)"
    r"|(?P<plain>[A-Za-z0-9 _-]+(?=[A-Za-z0-9 _-]))"  # without the last, which may be repeated
    r"|(?P<repeat>\{(?P<least>[0-9]+)(?:,(?P<most>[0-9]*))?\})"
    r"|(?P<open>\()|(?P<close>\))|(?P<quantifier>[*+?])|(?P<wide>\\[DSW]|\.)|\\.|.",
    re.DOTALL,
)
# A flag that lets letters match in any case.
_FOLDED: Final = re.compile(r"\(\?[A-Za-z-]*i")
_IN_SET: Final = re.compile(r"\\[pP](?:\{[^}]*\}|.)|\[:\^|\\[DSW]|.", re.DOTALL)
# Instructions: the largest Unicode class in any case, any character, a range of characters.
_UNICODE, _WIDE, _RANGE = 2_600, 10, 12


class Match(Protocol):
    """A match; positions count characters or bytes, as the text does."""

    def start(self) -> int:
        """Return the position of its first character or byte."""

    def end(self) -> int:
        """Return the position after its last one."""


class Pattern(Protocol):
    """A compiled pattern."""

    programsize: int

    def search(self, text: bytes) -> Match | None:
        """Return the leftmost match."""

    def finditer(self, text: bytes | str) -> "list[Match]":
        """Iterate over all matches."""


@lru_cache(maxsize=_KEPT)
def estimate_program(pattern: str) -> int:
    """Return more instructions than the program of a pattern has, from its text."""
    if len(pattern) > _MOST_INSTRUCTIONS // 2:
        return _MOST_INSTRUCTIONS + 1
    folded = _FOLDED.search(pattern) is not None
    levels = [[0, 0]]  # for each open group: the size so far, and the size of its last part
    for part in _PART.finditer(pattern):
        group = levels[-1]
        if part["open"]:
            levels.append([4, 0])
        elif part["close"] and len(levels) > 1:
            levels.pop()
            size = group[0] + group[1]
            levels[-1] = [sum(levels[-1]), size]
        elif part["repeat"]:
            # A minimum is a number of copies, too, if there is no maximum.
            times = int((part["most"] or part["least"])[:6]) + 1
            group[1] = (group[1] + 2) * times
        elif part["quantifier"]:
            group[1] += 2
        else:
            levels[-1] = [sum(group), _estimate_part(part, folded=folded)]
    # The search from any position, and the end.
    return 8 + sum(sum(group) for group in levels)


def _estimate_part(part: re.Match[str], *, folded: bool) -> int:
    text = part[0]
    if part["unicode"]:
        return _UNICODE
    if part["wide"]:
        return 3 * _WIDE if folded else _WIDE
    if part["text"] or part["plain"]:
        return sum(_estimate_character(char, folded=folded) for char in text)
    if not part["set"]:
        return _estimate_character(text[-1], folded=folded)
    size = _WIDE if text[1] == "^" else 2
    for member in _IN_SET.findall(text[1:-1]):
        if member[:2] in {r"\p", r"\P", r"\D", r"\S", r"\W", "[:"}:
            size += _UNICODE if member[1] in "pP" else _WIDE
        else:
            size += 2 if member.isascii() else _RANGE
    return size + (_RANGE if folded else 0)


def _estimate_character(char: str, *, folded: bool) -> int:
    return _RANGE if folded or not char.isascii() else 2


def is_too_large(pattern: str) -> bool:
    """Tell whether the program of a pattern is larger than we build."""
    return estimate_program(pattern) > _MOST_INSTRUCTIONS


@lru_cache(maxsize=_KEPT)
def compile_pattern(pattern: str) -> Pattern:
    """Compile a pattern, or raise an error of kind `regex`; cancels if its program is too large."""
    if "\\C" in pattern and _BYTE.match(pattern):
        raise EvaluationError("regex", r"error parsing regexp: invalid escape sequence: `\C`")
    if not pattern.isascii() and _FOREIGN_NAME.search(pattern):
        raise EvaluationError("regex", "error parsing regexp: invalid named capture")
    if pattern.count("(") > _DEEPEST and _DEEP.search(pattern):
        raise EvaluationError("regex", "error parsing regexp: expression nests too deeply")
    if is_too_large(pattern):
        raise exceeded()
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MEMORY
    try:
        compiled = cast("Pattern", re2.compile(pattern, options))
    except (re2.error, UnicodeEncodeError) as problem:
        reason = problem.args[0] if problem.args else problem
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise EvaluationError("regex", f"error parsing regexp: {text}") from None
    # The library keeps another 128 patterns.
    re2.purge()
    return compiled


def check_pattern(pattern: str) -> str | None:
    """Return the error of a pattern, or None if it is valid or larger than we build."""
    try:
        compile_pattern(pattern)
    except EvaluationError as problem:
        return problem.message
    except Cancelled:
        return None
    return None


def pattern_price(pattern: CelValue) -> int:
    """Return the work of compiling a pattern, whether it is kept or not."""
    if not isinstance(pattern, str):
        return 0
    size = estimate_program(pattern)
    if size > _MOST_INSTRUCTIONS:
        return MOST_WORK + 1
    return _BUILD + size * _BUILD_INSTRUCTION


def search_price(text: CelValue, pattern: CelValue) -> int:
    """Return the work of one search: the program of the pattern times the text, at worst."""
    if not isinstance(text, str) or not isinstance(pattern, str):
        return _SEARCH
    return _SEARCH + _program_size(pattern) * _bytes(text) // _INSTRUCTIONS_PER_UNIT


def find_all_price(text: CelValue, pattern: CelValue, limit: CelValue = -1) -> int:
    """Return the work of a search from every position, or for as many matches as are asked for."""
    if not isinstance(text, str) or not isinstance(pattern, str):
        return _SEARCH
    searches = len(text) + 1
    if type(limit) is int and limit >= 0:
        # An empty match next to another match does not count.
        searches = min(searches, 2 * limit)
    # Each search begins after the match before, so half of the text is left on average.
    return _FOUND + searches * (_FOUND + _SEARCH + search_price(text, pattern) // 2)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)


@lru_cache(maxsize=_KEPT)
def _program_size(pattern: str) -> int:
    try:
        return compile_pattern(pattern).programsize
    except EvaluationError:
        return 0


def matches(text: str, pattern: str) -> bool:
    """Tell whether the pattern matches anywhere in the text."""
    return compile_pattern(pattern).search(text.encode(errors="replace")) is not None


def prepare(args: tuple[CelValue, ...]) -> None:
    """Refuse an invalid constant pattern at compile time."""
    pattern = args[1]
    if isinstance(pattern, str) and not is_too_large(pattern):
        compile_pattern(pattern)


def _find(text: str, pattern: str) -> str:
    encoded = text.encode(errors="replace")
    match = compile_pattern(pattern).search(encoded)
    return encoded[match.start() : match.end()].decode() if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    texts: list[str] = []
    if limit == 0:
        return texts
    end = -1
    for match in compile_pattern(pattern).finditer(text):
        # An empty match immediately after another match does not count.
        if match.end() > match.start() or match.start() != end:
            texts.append(text[match.start() : match.end()])
            if len(texts) == limit:
                break
        end = match.end()
    return texts


def _cost(args: tuple[CelValue, ...], _: CelValue) -> int:
    return costs.regex_cost(args[0], args[1])


def _estimate(operands: tuple[Operand, ...]) -> CallEstimate:
    text, pattern = operands[0].size, operands[1].size
    return CallEstimate(costs.regex_estimate(text.max, pattern.max), Range(0, text.max))


_TEXTS: Final = (STRING, STRING)
REGEX: Final = Library(
    "kubernetes.regex",
    (
        Function(
            "find",
            (
                Overload(
                    "string_find_string", _TEXTS, STRING, _find, member=True, prepare=prepare
                ),
            ),
            cost=_cost,
            estimate=_estimate,
        ),
        Function(
            "findAll",
            (
                Overload(
                    "string_find_all_string", _TEXTS, list_of(STRING), _find_all,
                    member=True, prepare=prepare,
                ),
                Overload(
                    "string_find_all_string_int", (STRING, STRING, INT), list_of(STRING), _find_all,
                    member=True, prepare=prepare,
                ),
            ),
            cost=_cost,
            estimate=_estimate,
        ),
    ),
)  # fmt: skip
