"""Parses the content of brackets: arguments, indices, list elements and map entries."""

from collections.abc import Callable, Mapping

from drawbridge.cel.ast import Call, CelNode, Entry, ListLiteral, MapLiteral, MessageLiteral
from drawbridge.cel.lexer import END, ESCAPED, IDENTIFIER, Complaint
from drawbridge.cel.parser_stacks import (
    COMPLETE,
    OPERAND,
    BracketFrame,
    ParserStacks,
    ParserState,
    UnexpectedError,
)


def open_call(stacks: ParserStacks, name: str, *, member: bool) -> ParserState:
    """Handle the parenthesis that opens the arguments of a call."""
    frame = stacks.open("call", stacks.tokens[stacks.at][2], name, member=member)
    stacks.at += 1
    if stacks.tokens[stacks.at][0] == ")":
        return _close_call(stacks, frame)
    stacks.enter()
    return OPERAND


def _close_call(stacks: ParserStacks, frame: BracketFrame) -> ParserState:
    stacks.at += 1
    stacks.close()
    args = stacks.operands[frame.base :]
    target = args.pop(0) if frame.member else None
    stacks.result(frame, stacks.call(frame, tuple(args), target), weighs=frame.member)
    return COMPLETE


def element(stacks: ParserStacks, frame: BracketFrame) -> ParserState:
    """Handle the position where an element or entry may begin or the literal may end."""
    tokens = stacks.tokens
    kind = tokens[stacks.at][0]
    close_bracket = _CLOSERS[frame.kind]
    if kind == "," and tokens[stacks.at - 1][0] != ",":
        stacks.at += 1
        kind = tokens[stacks.at][0]
        if kind != close_bracket:
            raise UnexpectedError
    if kind == close_bracket:
        return _CLOSE[frame.kind](stacks, frame)
    frame.marked = kind == "?"
    if frame.marked:
        stacks.at += 1
    if frame.kind == "message":
        return _field(stacks, frame)
    frame.seen = len(stacks.complaints)
    if frame.kind == "[" and frame.marked:
        frame.optional.add(len(stacks.operands) - frame.base)
    stacks.enter()
    return OPERAND


def _field(stacks: ParserStacks, frame: BracketFrame) -> ParserState:
    """Parse the field name of a message literal and its colon."""
    if not frame.keys:
        frame.seen = stacks.tokens[stacks.at - frame.marked][2]
    before = len(stacks.complaints)
    name = field_name(stacks, frame.seen)
    kind, _, colon = stacks.tokens[stacks.at]
    if kind != ":":
        del stacks.complaints[before:]
        raise UnexpectedError
    stacks.at += 1
    frame.keys.append((colon, name, frame.marked))
    stacks.enter()
    return OPERAND


def field_name(stacks: ParserStacks, place: int) -> str:
    """Return a field name, with or without backquotes; report backquotes at `place`."""
    kind, word, _ = stacks.tokens[stacks.at]
    if kind not in {IDENTIFIER, ESCAPED}:
        raise UnexpectedError
    stacks.at += 1
    if kind == IDENTIFIER:
        return word
    if not stacks.options.escaped_fields:
        stacks.complaints.append(Complaint("syntax", place, "unsupported syntax: '`'"))
    return word[1:-1]


def complete_entry(stacks: ParserStacks, frame: BracketFrame) -> None:
    """Require that a map entry has a value."""
    if frame.kind == "{" and len(stacks.operands) - frame.base != 2 * len(frame.keys):
        raise UnexpectedError


def close_bracket(stacks: ParserStacks) -> ParserState:
    """Handle a closing bracket, which must match the innermost open bracket."""
    frame = stacks.frames[-1]
    if _CLOSERS[frame.kind] != stacks.tokens[stacks.at][0]:
        raise UnexpectedError
    stacks.finish()
    complete_entry(stacks, frame)
    return _CLOSE[frame.kind](stacks, frame)


def _close_parenthesis(stacks: ParserStacks, _frame: BracketFrame) -> ParserState:
    stacks.at += 1
    stacks.close()
    return COMPLETE


def _close_index(stacks: ParserStacks, frame: BracketFrame) -> ParserState:
    stacks.at += 1
    stacks.close()
    args = tuple(stacks.operands[frame.base :])
    stacks.result(frame, Call(stacks.ids(), frame.offset, frame.name, None, args), weighs=True)
    return COMPLETE


def _close_list(stacks: ParserStacks, frame: BracketFrame) -> ParserState:
    stacks.at += 1
    stacks.close()
    elements = tuple(stacks.operands[frame.base :])
    optional = frozenset(frame.optional)
    stacks.result(frame, ListLiteral(stacks.ids(), frame.offset, elements, optional))
    return COMPLETE


def _close_map(stacks: ParserStacks, frame: BracketFrame) -> ParserState:
    stacks.at += 1
    stacks.close()
    entries = _entries(stacks, frame, stacks.operands[frame.base + 1 :: 2])
    stacks.result(frame, MapLiteral(stacks.ids(), frame.offset, entries))
    return COMPLETE


def _close_message(stacks: ParserStacks, frame: BracketFrame) -> ParserState:
    stacks.at += 1
    stacks.close()
    entries = _entries(stacks, frame, stacks.operands[frame.base :])
    stacks.result(frame, MessageLiteral(stacks.ids(), frame.offset, frame.name, entries))
    return COMPLETE


def _entries(stacks: ParserStacks, frame: BracketFrame, values: list[CelNode]) -> tuple[Entry, ...]:
    return tuple(
        Entry(stacks.ids(), colon, key, value, marked)
        for (colon, key, marked), value in zip(frame.keys, values, strict=True)
    )


_CLOSERS = {"[": "]", "{": "}", "message": "}", "(": ")", "call": ")", "index": "]", "": END}
_CLOSE: Mapping[str, Callable[[ParserStacks, BracketFrame], ParserState]] = {
    "(": _close_parenthesis,
    "call": _close_call,
    "index": _close_index,
    "[": _close_list,
    "{": _close_map,
    "message": _close_message,
}
