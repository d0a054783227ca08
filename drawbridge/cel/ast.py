"""The CEL syntax tree after macro expansion. The parser creates it; all later steps read it.

A node has an `id`, which is unique in one expression and keys the results of the checker, and an
`offset` into the source in characters. Operators are calls with cel-go's internal names (`_+_`,
`_&&_`, `@in`).
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

# int is a CEL int; uint, bytes and other kinds have classes in drawbridge.cel.values
Constant = object


class Literal(msgspec.Struct, eq=False):
    """A constant; `value` is a CEL value (see drawbridge.cel.values)."""

    id: int
    offset: int
    value: Constant


class Ident(msgspec.Struct, eq=False):
    """An identifier as written, including a leading dot."""

    id: int
    offset: int
    name: str


class Select(msgspec.Struct, eq=False):
    """`operand.field`; if `test` is true, the presence test that `has()` expands to."""

    id: int
    offset: int
    operand: "CelNode"
    field: str
    test: bool = False


class Call(msgspec.Struct, eq=False):
    """`function(args)` or `target.function(args)`."""

    id: int
    offset: int
    function: str
    target: "CelNode | None"
    args: "tuple[CelNode, ...]"


class ListLiteral(msgspec.Struct, eq=False):
    """`[a, ?b]`; `optional` holds the indices marked with a question mark."""

    id: int
    offset: int
    elements: "tuple[CelNode, ...]"
    optional: frozenset[int] = frozenset()


class Entry(msgspec.Struct, eq=False):
    """One entry of a map (`key` is a node) or of a message (`key` is a field name)."""

    id: int
    offset: int
    key: "CelNode | str"
    value: "CelNode"
    optional: bool = False


class MapLiteral(msgspec.Struct, eq=False):
    """`{k: v, ?k: v}`."""

    id: int
    offset: int
    entries: tuple[Entry, ...]


class MessageLiteral(msgspec.Struct, eq=False):
    """`Name{field: v, ?field: v}`."""

    id: int
    offset: int
    name: str
    entries: tuple[Entry, ...]


class Comprehension(msgspec.Struct, eq=False):
    """The expansion of an iterating macro: a fold over a range with an accumulator."""

    id: int
    offset: int
    range: "CelNode"
    variable: str
    second_variable: str | None
    accumulator: str
    initial: "CelNode"
    condition: "CelNode"
    step: "CelNode"
    result: "CelNode"


CelNode = (
    Literal | Ident | Select | Call | ListLiteral | MapLiteral | MessageLiteral | Comprehension
)


def copy_tree(node: CelNode, new_id: Callable[[], int]) -> CelNode:
    """Return a copy of the tree under `node` with new ids."""
    copy: dict[int, CelNode] = {}
    for descendant in reversed(walk(node)):
        copy[id(descendant)] = _copy(descendant, new_id, copy)
    return copy[id(node)]


def walk(node: CelNode) -> list[CelNode]:
    """Return the node and all its descendants; a parent precedes its children."""
    nodes = [node]
    for parent in nodes:
        nodes.extend(children(parent))
    return nodes


def children(node: CelNode) -> tuple[CelNode, ...]:  # noqa: PLR0911  # one for each kind of node
    """Return the direct children of `node` in source order."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return node.args if node.target is None else (node.target, *node.args)
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return tuple(
                part for entry in node.entries for part in (entry.key, entry.value)
                if not isinstance(part, str)
            )  # fmt: skip
        case MessageLiteral():
            return tuple(entry.value for entry in node.entries)
        case Comprehension():
            return (node.range, node.initial, node.condition, node.step, node.result)
        case _:
            return ()


def _copy(node: CelNode, new_id: Callable[[], int], copy: Mapping[int, CelNode]) -> CelNode:
    """Return a copy of one node with the given copies of its children."""
    identity = new_id()
    match node:
        case Select():
            return replace(node, id=identity, operand=copy[id(node.operand)])
        case Call():
            target = None if node.target is None else copy[id(node.target)]
            args = tuple(copy[id(arg)] for arg in node.args)
            return replace(node, id=identity, target=target, args=args)
        case ListLiteral():
            return replace(node, id=identity, elements=tuple(copy[id(e)] for e in node.elements))
        case MapLiteral() | MessageLiteral():
            return replace(node, id=identity, entries=_entries(node.entries, new_id, copy))
        case Comprehension():
            return replace(
                node,
                id=identity,
                range=copy[id(node.range)],
                initial=copy[id(node.initial)],
                condition=copy[id(node.condition)],
                step=copy[id(node.step)],
                result=copy[id(node.result)],
            )
        case _:
            return replace(node, id=identity)


def _entries(
    entries: Sequence[Entry], new_id: Callable[[], int], copy: Mapping[int, CelNode]
) -> tuple[Entry, ...]:
    return tuple(
        replace(
            entry,
            id=new_id(),
            key=entry.key if isinstance(entry.key, str) else copy[id(entry.key)],
            value=copy[id(entry.value)],
        )
        for entry in entries
    )
