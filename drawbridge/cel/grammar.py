"""Handles tokens after a complete operand, and runs the parser's state machine.

Two tables map the kind of a token to an action. The action consumes tokens, changes the stacks and
returns the next state. A token that is missing in the table is an error.
"""

from collections.abc import Callable, Mapping

from drawbridge.cel.ast import Call, CelNode, Literal, Select
from drawbridge.cel.bracket_parsing import (
    close_bracket,
    complete_entry,
    element,
    field_name,
    open_call,
)
from drawbridge.cel.lexer import BYTES, END, FLOAT, IDENTIFIER, INT, STRING, UINT
from drawbridge.cel.literals import WORDS
from drawbridge.cel.operand_parsing import (  # fmt: skip
    dotted_name,
    literal,
    name,
    open_list,
    open_map,
    open_parenthesis,
    prefix,
    word,
)
from drawbridge.cel.parser_stacks import (
    AND,
    COMPLETE,
    DONE,
    ELSE,
    OPERAND,
    OR,
    PRODUCT,
    RELATION,
    SUM,
    THEN,
    ParserStacks,
    ParserState,
    UnexpectedError,
)

Table = Mapping[str, Callable[[ParserStacks], ParserState]]


def run(stacks: ParserStacks) -> CelNode:
    """Parse all tokens."""
    tokens = stacks.tokens
    stacks.open("", 0)
    while stacks.state != DONE:
        action = _TABLES[stacks.state].get(tokens[stacks.at][0])
        if action is None:
            raise UnexpectedError
        stacks.state = action(stacks)
    return stacks.operands[0]


def _binary(stacks: ParserStacks) -> ParserState:
    kind, _, offset = stacks.tokens[stacks.at]
    level, function = _BINARY[kind]
    stacks.reduce(level)
    stacks.operators.append((level, function, offset))
    stacks.pending[level] += 1
    stacks.enter()
    stacks.at += 1
    return OPERAND


def _logical(stacks: ParserStacks) -> ParserState:
    kind, _, offset = stacks.tokens[stacks.at]
    level, function = _BINARY[kind]
    stacks.reduce(level + 1)
    stacks.operators.append((level, function, offset))
    stacks.at += 1
    return OPERAND


def _question(stacks: ParserStacks) -> ParserState:
    stacks.reduce(OR)
    if stacks.operators[-1][1] == THEN:
        raise UnexpectedError
    stacks.operators.append((0, THEN, stacks.tokens[stacks.at][2]))
    stacks.at += 1
    return OPERAND


def _colon(stacks: ParserStacks) -> ParserState:
    """Handle the colon of a conditional, or the colon between key and value."""
    stacks.reduce(OR)
    _, function, offset = stacks.operators[-1]
    if function == THEN:
        stacks.operators[-1] = (0, ELSE, offset)
        stacks.pending[0] += 1
    else:
        _key(stacks)
    stacks.enter()
    stacks.at += 1
    return OPERAND


def _key(stacks: ParserStacks) -> None:
    """Handle the colon after a map key."""
    stacks.finish()
    frame = stacks.frames[-1]
    if frame.kind != "{" or len(stacks.operands) - frame.base != 2 * len(frame.keys) + 1:
        raise UnexpectedError
    frame.keys.append((stacks.tokens[stacks.at][2], stacks.operands[-1], frame.marked))


def _dot(stacks: ParserStacks) -> ParserState:
    """Handle a selection, an optional selection or a member call."""
    tokens = stacks.tokens
    dot = tokens[stacks.at][2]
    stacks.at += 1
    kind, word, place = tokens[stacks.at]
    if kind == "?":
        stacks.at += 1
        return _optional_select(stacks, dot)
    if kind == IDENTIFIER and tokens[stacks.at + 1][0] == "(":
        stacks.at += 1
        return open_call(stacks, word, member=True)
    field = field_name(stacks, place)
    stacks.operands[-1] = Select(stacks.ids(), dot, stacks.operands[-1], field)
    stacks.higher()
    return COMPLETE


def _optional_select(stacks: ParserStacks, dot: int) -> ParserState:
    place = stacks.tokens[stacks.at][2]
    field = Literal(stacks.ids(), place, field_name(stacks, place))
    stacks.operands[-1] = Call(stacks.ids(), dot, "_?._", None, (stacks.operands[-1], field))
    stacks.higher()
    return COMPLETE


def _open_index(stacks: ParserStacks) -> ParserState:
    offset = stacks.tokens[stacks.at][2]
    stacks.at += 1
    optional = stacks.tokens[stacks.at][0] == "?"
    if optional:
        stacks.at += 1
    stacks.open("index", offset, "_[?_]" if optional else "_[_]", member=True)
    stacks.enter()
    return OPERAND


def _comma(stacks: ParserStacks) -> ParserState:
    frame = stacks.frames[-1]
    if frame.kind not in {"call", "[", "{", "message"}:
        raise UnexpectedError
    stacks.finish()
    complete_entry(stacks, frame)
    stacks.at += 1
    if frame.kind == "call":
        stacks.enter()
        return OPERAND
    return element(stacks, frame)


def _finish_expression(stacks: ParserStacks) -> ParserState:
    if len(stacks.frames) > 1:
        raise UnexpectedError
    stacks.finish()
    return DONE


_BINARY = {
    "||": (OR, "_||_"),
    "&&": (AND, "_&&_"),
    "<": (RELATION, "_<_"),
    "<=": (RELATION, "_<=_"),
    ">": (RELATION, "_>_"),
    ">=": (RELATION, "_>=_"),
    "==": (RELATION, "_==_"),
    "!=": (RELATION, "_!=_"),
    "in": (RELATION, "@in"),
    "+": (SUM, "_+_"),
    "-": (SUM, "_-_"),
    "*": (PRODUCT, "_*_"),
    "/": (PRODUCT, "_/_"),
    "%": (PRODUCT, "_%_"),
}
_OPERAND: Table = {
    **dict.fromkeys((STRING, BYTES, INT, UINT, FLOAT), literal),
    **dict.fromkeys(WORDS, word),
    IDENTIFIER: name,
    ".": dotted_name,
    "!": prefix,
    "-": prefix,
    "(": open_parenthesis,
    "[": open_list,
    "{": open_map,
}
_COMPLETE: Table = {
    **dict.fromkeys(_BINARY, _binary),
    "||": _logical,
    "&&": _logical,
    ".": _dot,
    "[": _open_index,
    "?": _question,
    ":": _colon,
    ",": _comma,
    ")": close_bracket,
    "]": close_bracket,
    "}": close_bracket,
    END: _finish_expression,
}
_TABLES = (_OPERAND, _COMPLETE)
