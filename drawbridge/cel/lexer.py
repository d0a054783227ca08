"""Splits an expression into tokens, and reproduces the errors of cel-go's lexer.

A token is `(kind, text, offset)`. The kind of punctuation and of keywords is the text itself, so it
is a key of the parser's tables.
"""

import re
from bisect import bisect_right
from typing import NamedTuple

from drawbridge.cel.errors import Problem

IDENTIFIER = "identifier"
ESCAPED = "escaped"
INT = "int"
UINT = "uint"
FLOAT = "float"
STRING = "string"
BYTES = "bytes"
END = "end"
STRAY = "stray"

Token = tuple[str, str, int]


class Complaint(NamedTuple):
    """An error whose offset counts characters; `offset` -1 means no position."""

    kind: str
    offset: int
    message: str


_ESCAPE = (
    r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"
)
_QUOTED = (
    rf'"""(?:{_ESCAPE}|[^\\])*?"""'
    rf"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*+"'
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*+'"
)
_RAW = (
    r'[rR](?:"""(?s:.)*?"""'
    r"|'''(?s:.)*?'''"
    r'|"[^"\n\r]*+"'
    r"|'[^'\n\r]*+')"
)
# The order is that of the kinds below, frequent ones first. An identifier is tried before the
# string whose prefix it may be, hence the lookahead, and again if no string matches.
_WORD = "[A-Za-z_][A-Za-z0-9_]*+"
# At an invalid token the rest of the text is one token: nothing after it matters, and a restart
# at each character would take quadratic time.
_TOKEN = re.compile(
    r"(?:[ \t\r\n\f]++|//[^\n]*+)*+(?:"
    rf"((?![bB]?[rR]?[\"']){_WORD})"
    r"|(\.(?![0-9])|[=!<>]=|[\[\](){}<>,:?!+\-*/%]|&&|\|\|)"
    rf'|("[^"\\\n\r]++"|{_QUOTED}|{_RAW})'
    r"|(0x[0-9a-fA-F]++(?![uU])|[0-9]++(?![.eExuU]))"
    r"|([0-9]*+\.[0-9]++(?:[eE][+-]?[0-9]++)?|[0-9]++[eE][+-]?[0-9]++)"
    r"|(0x[0-9a-fA-F]++[uU]|[0-9]++[uU])"
    r"|([0-9]++)"
    rf"|([bB](?:{_QUOTED}|{_RAW}))"
    rf"|({_WORD})"
    r"|(`[A-Za-z0-9_.\-/ ]++`)"
    r"|((?s:.++))"
    r"|(\Z))"
)
_KINDS = (
    "", IDENTIFIER, "", STRING, INT, FLOAT, UINT, INT, BYTES, IDENTIFIER, ESCAPED, STRAY, END,
)  # fmt: skip
_WORDS = {
    word: word
    for word in (
        *"<>[](){}.,:?!+-*/%", "==", "!=", "<=", ">=", "&&", "||", "in", "true", "false", "null",
    )
}  # fmt: skip


def tokenize(text: str) -> list[Token]:
    """Return the tokens of `text`, the last of kind END; from the first error on, all is STRAY."""
    words = _WORDS
    kinds = _KINDS
    return [
        (
            words.get(word := match[group := match.lastindex or 0]) or kinds[group],
            word,
            match.start(group),
        )
        for match in _TOKEN.finditer(text)
    ]


_HEX = "[0-9a-fA-F]"
# The part of an escape sequence that is readable before the error.
_BROKEN_ESCAPE = rf"\\(?:[xX]{_HEX}?|u{_HEX}{{0,3}}|U{_HEX}{{0,7}}|[0-3][0-7]?)?"
# Everything that begins like a token and can end before it is complete.
_BROKEN = re.compile(
    rf'"(?:{_ESCAPE}|[^\\"\n\r])*+(?:{_BROKEN_ESCAPE})?'
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*+(?:{_BROKEN_ESCAPE})?"
    r"|`[A-Za-z0-9_.\-/ ]*+"
    r"|[&|=]"
)


_COMPLAINTS = 100


def recover_tokens(text: str) -> tuple[list[Token], list[Complaint]]:
    """Return the tokens that cel-go's lexer finds in a `text` with errors.

    It reads while a token is possible, then drops the text so far and the offending character, and
    restarts after it.
    """
    tokens: list[Token] = []
    complaints: list[Complaint] = []
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        group = match.lastindex if match else None
        if match is None or group is None:  # not possible: the last two groups match any text
            return tokens, complaints
        start = match.start(group)
        position = match.end()
        if _KINDS[group] is not STRAY:
            kind = _WORDS.get(match[group]) or _KINDS[group]
            tokens.append((kind, match[group], start))
            if kind is END:
                return tokens, complaints
            continue
        broken = _BROKEN.match(text, start)
        position = (broken.end() if broken else start) + 1
        seen = text[start:position]
        if len(complaints) < _COMPLAINTS:
            message = f"token recognition error at: '{seen}'"
            complaints.append(Complaint("syntax", start, message))


def locate_problems(complaints: list[Complaint], text: str) -> tuple[Problem, ...]:
    """Convert complaints to problems with line and column, in order of their positions.

    Problems without a position come first; otherwise the order is stable. An empty text has no
    first column.
    """
    lines = [0]
    lines.extend(match.end() for match in re.finditer("\n", text))
    problems = []
    for kind, offset, message in sorted(complaints, key=lambda complaint: complaint.offset):
        if offset < 0:
            problems.append(Problem(kind, 0, 0, message))
            continue
        line = bisect_right(lines, offset)
        problems.append(Problem(kind, line, offset - lines[line - 1] + bool(text), message))
    return tuple(problems)
