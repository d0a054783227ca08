"""Handles tokens where an operand is expected."""

from drawbridge.cel.ast import Ident, Literal
from drawbridge.cel.bracket_parsing import element, open_call
from drawbridge.cel.lexer import FLOAT, IDENTIFIER, INT, Complaint
from drawbridge.cel.literals import READERS, WORDS, double, integer
from drawbridge.cel.parser_stacks import (
    COMPLETE,
    OPERAND,
    PREFIX,
    ParserStacks,
    ParserState,
    UnexpectedError,
)

# Words reserved by the CEL specification; they are valid as field names.
RESERVED = frozenset({
    "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in",
    "let", "loop", "namespace", "null", "package", "return", "true", "var", "void", "while",
})  # fmt: skip


def name(stacks: ParserStacks) -> ParserState:
    """Parse an identifier, or the call or message that starts with it."""
    return _name(stacks, "")


def dotted_name(stacks: ParserStacks) -> ParserState:
    """Parse a leading dot and the identifier after it."""
    stacks.at += 1
    if stacks.tokens[stacks.at][0] != IDENTIFIER:
        raise UnexpectedError
    return _name(stacks, ".")


def _name(stacks: ParserStacks, dot: str) -> ParserState:
    """Parse an identifier, a call or a message, after an optional leading dot."""
    tokens = stacks.tokens
    at = stacks.at
    _, word, offset = tokens[at]
    following = tokens[at + 1][0]
    if following in {".", "{"}:
        end = at + 1
        while tokens[end][0] == "." and tokens[end + 1][0] == IDENTIFIER:
            end += 2
        if tokens[end][0] == "{":
            return _message(stacks, dot, end)
    if word in RESERVED:
        start = tokens[at - 1][2] if dot else offset
        return _reserved(stacks, start)
    stacks.at = at + 1
    if following == "(":
        return open_call(stacks, dot + word, member=False)
    stacks.push(Ident(stacks.ids(), offset, dot + word))
    return COMPLETE


def _reserved(stacks: ParserStacks, start: int) -> ParserState:
    """Report a reserved word as a name; parse its arguments in any case."""
    word = stacks.tokens[stacks.at][1]
    stacks.complaints.append(Complaint("reserved", start, f"reserved identifier: {word}"))
    stacks.at += 1
    if stacks.tokens[stacks.at][0] == "(":
        return open_call(stacks, "", member=False)
    stacks.push(Literal(stacks.ids(), start, None))
    return COMPLETE


def literal(stacks: ParserStacks) -> ParserState:
    """Parse a number, a string or bytes."""
    kind, word, offset = stacks.tokens[stacks.at]
    try:
        value = READERS[kind](word)
    except ValueError as error:
        value = None
        stacks.complaints.append(Complaint("syntax", offset, str(error)))
    stacks.at += 1
    stacks.push(Literal(stacks.ids(), offset, value))
    return COMPLETE


def word(stacks: ParserStacks) -> ParserState:
    """Parse `true`, `false` or `null`."""
    _, word, offset = stacks.tokens[stacks.at]
    stacks.at += 1
    stacks.push(Literal(stacks.ids(), offset, WORDS[word]))
    return COMPLETE


def prefix(stacks: ParserStacks) -> ParserState:
    """Parse a run of `!` or of `-`; an even number of them has no effect."""
    tokens = stacks.tokens
    kind, _, offset = tokens[stacks.at]
    first = stacks.at
    while tokens[stacks.at][0] == kind:
        stacks.at += 1
    following = tokens[stacks.at][0]
    length = stacks.at - first
    if kind == "-" and length == 1 and following in {INT, FLOAT}:
        return _negative(stacks, offset)
    if length % 2:
        stacks.operators.append((PREFIX, f"{kind}_", offset))
    if following in {"!", "-"}:
        if kind == "-":
            raise UnexpectedError
        stacks.at += 1
        if tokens[stacks.at][0] not in {INT, FLOAT}:
            raise UnexpectedError
        return _negative(stacks, tokens[stacks.at - 1][2])
    return OPERAND


def _negative(stacks: ParserStacks, offset: int) -> ParserState:
    """Parse a number after its minus sign."""
    kind, word, _ = stacks.tokens[stacks.at]
    value: int | float | None = None
    try:
        value = integer(word, negative=True) if kind == INT else double(word, negative=True)
    except ValueError as error:
        stacks.complaints.append(Complaint("syntax", offset, str(error)))
    stacks.at += 1
    stacks.push(Literal(stacks.ids(), offset, value))
    return COMPLETE


def open_parenthesis(stacks: ParserStacks) -> ParserState:
    """Open an expression in parentheses."""
    stacks.open("(", stacks.tokens[stacks.at][2])
    stacks.at += 1
    stacks.enter()
    return OPERAND


def open_list(stacks: ParserStacks) -> ParserState:
    """Open a list literal."""
    frame = stacks.open("[", stacks.tokens[stacks.at][2])
    stacks.at += 1
    return element(stacks, frame)


def open_map(stacks: ParserStacks) -> ParserState:
    """Open a map literal."""
    frame = stacks.open("{", stacks.tokens[stacks.at][2])
    stacks.at += 1
    return element(stacks, frame)


def _message(stacks: ParserStacks, dot: str, end: int) -> ParserState:
    """Handle a name up to `end`; a brace after it opens a message literal."""
    name = dot + "".join(token[1] for token in stacks.tokens[stacks.at : end])
    frame = stacks.open("message", stacks.tokens[end][2], name)
    stacks.at = end + 1
    return element(stacks, frame)
