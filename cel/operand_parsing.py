"""What a token does where an operand is expected."""

from cel.ast import Ident, Literal
from cel.bracket_parsing import element, open_call
from cel.lexer import FLOAT, IDENTIFIER, INT, Complaint
from cel.literals import READERS, WORDS, double, integer
from cel.parser_stacks import COMPLETE, OPERAND, PREFIX, ParserStacks, ParserState, UnexpectedError

# Words that may become syntax one day; as names of fields they are free.
RESERVED = frozenset({
    "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in",
    "let", "loop", "namespace", "null", "package", "return", "true", "var", "void", "while",
})  # fmt: skip


def name(stacks: ParserStacks) -> ParserState:
    """An identifier, or what begins with one."""
    return _name(stacks, "")


def dotted_name(stacks: ParserStacks) -> ParserState:
    """A dot that begins an operand, and the identifier behind it."""
    stacks.at += 1
    if stacks.tokens[stacks.at][0] != IDENTIFIER:
        raise UnexpectedError
    return _name(stacks, ".")


def _name(stacks: ParserStacks, dot: str) -> ParserState:
    """An identifier, a call or a message, of which a dot may have been read."""
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
    """A name that is none; what would be its arguments are parsed all the same."""
    word = stacks.tokens[stacks.at][1]
    stacks.complaints.append(Complaint("reserved", start, f"reserved identifier: {word}"))
    stacks.at += 1
    if stacks.tokens[stacks.at][0] == "(":
        return open_call(stacks, "", member=False)
    stacks.push(Literal(stacks.ids(), start, None))
    return COMPLETE


def literal(stacks: ParserStacks) -> ParserState:
    """A number, a string or bytes."""
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
    """A constant that is a word."""
    _, word, offset = stacks.tokens[stacks.at]
    stacks.at += 1
    stacks.push(Literal(stacks.ids(), offset, WORDS[word]))
    return COMPLETE


def prefix(stacks: ParserStacks) -> ParserState:
    """A run of `!` or of `-`, of which an even number says nothing."""
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
    """At a number of which the sign has been read."""
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
    """An expression in parentheses."""
    stacks.open("(", stacks.tokens[stacks.at][2])
    stacks.at += 1
    stacks.enter()
    return OPERAND


def open_list(stacks: ParserStacks) -> ParserState:
    """A list."""
    frame = stacks.open("[", stacks.tokens[stacks.at][2])
    stacks.at += 1
    return element(stacks, frame)


def open_map(stacks: ParserStacks) -> ParserState:
    """A map."""
    frame = stacks.open("{", stacks.tokens[stacks.at][2])
    stacks.at += 1
    return element(stacks, frame)


def _message(stacks: ParserStacks, dot: str, end: int) -> ParserState:
    """At a name that goes to `end`, where a brace makes it a message."""
    name = dot + "".join(token[1] for token in stacks.tokens[stacks.at : end])
    frame = stacks.open("message", stacks.tokens[end][2], name)
    stacks.at = end + 1
    return element(stacks, frame)
