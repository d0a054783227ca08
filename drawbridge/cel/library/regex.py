"""Regular expressions: CEL's `matches` and Kubernetes' `find` and `findAll`.

Patterns are RE2 patterns, which do not backtrack: the size of text and pattern bounds the time.
"""

import re
from collections.abc import Callable
from typing import Final, Protocol, cast

import re2

from drawbridge.cel.declare import (
    UNKNOWN,
    CallEstimate,
    Function,
    Library,
    Operand,
    Overload,
    Range,
)
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library import costs
from drawbridge.cel.library.bounds import check_size
from drawbridge.cel.types import INT, STRING, list_of
from drawbridge.cel.values import CelValue

# Go accepts patterns that compile to 128 MiB; only hostile patterns need more than this.
_MOST_MEMORY: Final = 64 << 20
# This many pairs of text and pattern characters cost ten times the budget of a selector.
_MOST_WORK: Final = 400_000_000
# A search for all matches may take quadratic time.
_LONGEST_SEARCHED: Final = 20_000
# Matches a single byte in C++; Go does not support it.
_BYTE: Final = re.compile(r"(?:[^\\]|\\[^CQ]|\\Q(?s:.*?)(?:\\E|\Z))*?\\C")
# Go requires plain letters in group names, and limits the nesting of groups.
_FOREIGN_NAME: Final = re.compile(r"(?<!\\)\(\?P?<[^>]*[^\x00-\x7f]")
_DEEPEST: Final = 1000
_DEEP: Final = re.compile(rf"\({{{_DEEPEST + 1}}}")


class _Match(Protocol):
    def start(self) -> int: ...
    def end(self) -> int: ...
    def group(self) -> str: ...


class _RawMatch(Protocol):
    def group(self) -> bytes: ...


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: bytes) -> _RawMatch | None:
        """Return the leftmost match, in bytes, because counting characters takes longer."""

    def finditer(self, text: str) -> "list[_Match]":
        """Iterate over all matches."""


def compile_pattern(pattern: str) -> Pattern:
    """Compile a pattern, or raise an error of kind `regex`."""
    if "\\C" in pattern and _BYTE.match(pattern):
        raise EvaluationError("regex", r"error parsing regexp: invalid escape sequence: `\C`")
    if not pattern.isascii() and _FOREIGN_NAME.search(pattern):
        raise EvaluationError("regex", "error parsing regexp: invalid named capture")
    if pattern.count("(") > _DEEPEST and _DEEP.search(pattern):
        raise EvaluationError("regex", "error parsing regexp: expression nests too deeply")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    try:
        return cast("Pattern", re2.compile(pattern, options))
    except (re2.error, UnicodeEncodeError) as problem:
        reason = problem.args[0] if problem.args else problem
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise EvaluationError("regex", f"error parsing regexp: {text}") from None


def check_pattern(pattern: str) -> str | None:
    """Return the error of a pattern, or None if it is valid."""
    try:
        compile_pattern(pattern)
    except EvaluationError as problem:
        return problem.message
    return None


def matches(text: str, pattern: str) -> bool:
    """Tell whether the pattern matches anywhere in the text."""
    check_size(len(text) * len(pattern), _MOST_WORK)
    return compile_pattern(pattern).search(text.encode(errors="replace")) is not None


def prepare_matches(args: tuple[CelValue, ...]) -> Callable[..., CelValue] | None:
    """Compile a constant pattern once."""
    pattern = args[1]
    if not isinstance(pattern, str):
        return None
    compiled = compile_pattern(pattern)
    longest = _MOST_WORK // max(len(pattern), 1)

    def prepared(text: str, _: str) -> bool:
        check_size(len(text), longest)
        return compiled.search(text.encode(errors="replace")) is not None

    return prepared


def _find(text: str, pattern: str) -> str:
    check_size(len(text) * len(pattern), _MOST_WORK)
    return _first(compile_pattern(pattern), text)


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return _all(compile_pattern(pattern), text, limit)


def _first(pattern: Pattern, text: str) -> str:
    found = pattern.search(text.encode(errors="replace"))
    return found.group().decode() if found else ""


def _all(pattern: Pattern, text: str, limit: int) -> list[str]:
    check_size(len(text), _LONGEST_SEARCHED)
    if limit == 0:
        return []
    found: list[str] = []
    end = -1
    for match in pattern.finditer(text):
        # An empty match immediately after another match does not count.
        if match.end() > match.start() or match.start() != end:
            found.append(match.group())
            if len(found) == limit:
                break
        end = match.end()
    return found


def _prepare_find(args: tuple[CelValue, ...]) -> Callable[..., CelValue] | None:
    if args[1] is UNKNOWN or not isinstance(args[1], str):
        return None
    compiled = compile_pattern(args[1])
    return lambda text, _: _first(compiled, text)


def _prepare_find_all(args: tuple[CelValue, ...]) -> Callable[..., CelValue] | None:
    if args[1] is UNKNOWN or not isinstance(args[1], str):
        return None
    compiled = compile_pattern(args[1])
    return lambda text, _, limit=-1: _all(compiled, text, limit)


def _cost(args: tuple[CelValue, ...], _: CelValue) -> int:
    return costs.regex_cost(args[0], args[1])


def _estimate(operands: tuple[Operand, ...]) -> CallEstimate:
    text, pattern = operands[0].size, operands[1].size
    return CallEstimate(costs.regex_estimate(text, pattern), Range(0, text.max))


_TEXTS: Final = (STRING, STRING)
REGEX: Final = Library(
    "kubernetes.regex",
    (
        Function(
            "find",
            (
                Overload(
                    "string_find_string", _TEXTS, STRING, _find, member=True, prepare=_prepare_find
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
                    member=True, prepare=_prepare_find_all,
                ),
                Overload(
                    "string_find_all_string_int", (STRING, STRING, INT), list_of(STRING), _find_all,
                    member=True, prepare=_prepare_find_all,
                ),
            ),
            cost=_cost,
            estimate=_estimate,
        ),
    ),
)  # fmt: skip
