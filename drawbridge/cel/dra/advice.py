"""Says in a message what to write instead of an expression that does not compile.

The messages of the engine are those of cel-go, which name tokens and overloads. `describe_problem`
adds what people usually mean, and replaces the messages of the lexer.
"""

import re
from collections.abc import Callable
from typing import Final

from drawbridge.cel.errors import Problem
from drawbridge.dra.similar_names import find_similar, suggest

_FUNCTIONS: Final = (
    "compareTo", "contains", "endsWith", "isGreaterThan", "isLessThan", "lowerAscii", "matches",
    "quantity", "semver", "size", "startsWith", "upperAscii",
)  # fmt: skip
_FIELDS: Final = ("allowMultipleAllocations", "attributes", "capacity", "driver")
# What other languages write, and what CEL does.
_WORDS: Final = {
    "and": "&&", "or": "||", "not": "!", "&": "&&", "|": "||", "=": "==", "=~": "matches()",
    "<>": "!=", "#": "//", "True": "true", "False": "false", "None": "null", "nil": "null",
    "len": "size",
}  # fmt: skip
_QUOTES: Final = "\"'"
_DOMAIN: Final = (
    'attributes and capacities are grouped by domain: write device.attributes["DOMAIN"].NAME, '
    "where the domain is mostly the name of the driver"
)


def describe_problem(problem: Problem, text: str) -> str:
    """Return the message of a compile-time error of `text` with what to write instead."""
    for pattern, advise in _ADVICE:
        if match := re.match(pattern, problem.message, re.DOTALL):
            return advise(problem, text, match)
    return problem.message


def _describe_token(_: Problem, __: str, match: re.Match[str]) -> str:
    token = match[1].strip()
    if token[:1] in _QUOTES and token:
        return f"the string that begins with {token[:20]} has no closing quote"
    if token[:1] in "\u201c\u201d\u2018\u2019":
        return f"{token[:1]} does not begin a string; write \" or '"
    written = next((each for each in ("=~", token[:1]) if token.startswith(each)), token)
    instead = _WORDS.get(written)
    return f"`{written}` is not an operator of CEL" + (f"; write `{instead}`" if instead else "")


def _describe_unexpected(problem: Problem, text: str, match: re.Match[str]) -> str:
    before = text.splitlines()[problem.line - 1][: problem.column - 1].split()[-1:]
    for word in (match[1], *before):
        instead = _WORDS.get(word) or _WORDS.get(word.lower())
        if instead:
            return f"`{word}` is not an operator of CEL; write `{instead}`"
    if before and before[0].endswith("<") and match[1] == ">":
        return "`<>` is not an operator of CEL; write `!=`"
    return problem.message


def _describe_undeclared(problem: Problem, _: str, match: re.Match[str]) -> str:
    name = match[1]
    if name in _FIELDS:
        return f"there is no variable {name}; write device.{name}"
    instead = _WORDS.get(name) or find_similar(name, _FUNCTIONS)
    if instead:
        return f"CEL has no {name}; write `{instead}`"
    return f"{problem.message}; the only variable is device, and a string needs quotes"


def _describe_field(problem: Problem, _: str, match: re.Match[str]) -> str:
    hint = suggest(match[1], _FIELDS) or f"; device has {', '.join(_FIELDS)}"
    return f"{problem.message}{hint}"


def _describe_domain(problem: Problem, _: str, __: re.Match[str]) -> str:
    return f"{problem.message}; {_DOMAIN}"


def _describe_comparison(problem: Problem, _: str, match: re.Match[str]) -> str:
    return f'{problem.message}; compare amounts with .compareTo(quantity("40Gi")) {match[1]} 0'


def _describe_amount(problem: Problem, _: str, __: re.Match[str]) -> str:
    return f'{problem.message}; write amounts as quantity("40Gi")'


_Advise = Callable[[Problem, str, re.Match[str]], str]
_AMOUNT: Final = "kubernetes.Quantity"
_OVERLOAD: Final = "found no matching overload for "
_ADVICE: Final[tuple[tuple[str, _Advise], ...]] = (
    (r"token recognition error at: '(.+)'$", _describe_token),
    (r"unexpected '(.+)'$", _describe_unexpected),
    (r"undeclared reference to '(\w+)' ", _describe_undeclared),
    (r"undefined field '(\w+)'$", _describe_field),
    (rf"{_OVERLOAD}'[^']+' applied to '\(?map\(string, (?:any|{_AMOUNT})\)", _describe_domain),
    (rf"{_OVERLOAD}'_([<>]=?)_' applied to '\({_AMOUNT}, ", _describe_comparison),
    (rf"{_OVERLOAD}'\w+' applied to '{_AMOUNT}.\((?:string|int|double)\)", _describe_amount),
)  # fmt: skip
