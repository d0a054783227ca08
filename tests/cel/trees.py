"""Formats syntax trees as text in a form that shows every node."""

from drawbridge.cel.ast import (
    Call,
    CelNode,
    Comprehension,
    Entry,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    MessageLiteral,
    Select,
)
from drawbridge.cel.values import Uint


def show(node: CelNode) -> str:  # noqa: PLR0911  # one for each kind of node
    """Format a tree: `target->f(args)` is a member call, `fold(...)` a comprehension."""
    match node:
        case Literal():
            return constant(node.value)
        case Ident():
            return node.name
        case Select():
            text = f"{show(node.operand)}.{node.field}"
            return f"has({text})" if node.test else text
        case Call():
            target = f"{show(node.target)}->" if node.target else ""
            return f"{target}{node.function}({', '.join(map(show, node.args))})"
        case ListLiteral():
            marks = ("?" if i in node.optional else "" for i in range(len(node.elements)))
            elements = map(show, node.elements)
            return f"[{', '.join(m + e for m, e in zip(marks, elements, strict=True))}]"
        case MapLiteral():
            return f"{{{entries(node.entries)}}}"
        case MessageLiteral():
            return f"{node.name}{{{entries(node.entries)}}}"
        case Comprehension():
            return fold(node)


def fold(node: Comprehension) -> str:
    """Format a comprehension."""
    names = ", ".join(filter(None, (node.variable, node.second_variable)))
    return (
        f"fold({names} in {show(node.range)}; {node.accumulator} = {show(node.initial)}; "
        f"while {show(node.condition)}; {show(node.step)}; {show(node.result)})"
    )


def entries(listed: tuple[Entry, ...]) -> str:
    """Format the entries of a map or message."""
    return ", ".join(
        f"{'?' if entry.optional else ''}"
        f"{entry.key if isinstance(entry.key, str) else show(entry.key)}: {show(entry.value)}"
        for entry in listed
    )


def constant(value: object) -> str:
    """Format a constant so that its type is visible."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case Uint():
            return f"{int(value)}u"
        case _:
            return repr(value)
