"""The syntax tree, after macros: what the parser makes and everything else reads.

Nodes carry an `id` (unique in one expression, by which the checker's findings are filed) and an
`offset` into the source in characters. Operators are calls under their internal names (`_+_`,
`_&&_`, `@in`, ...), as in the language definition.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

# int is a CEL int; uint, bytes and the rest have their classes in cel.values
Constant = object


@dataclass(slots=True, eq=False)
class Literal:
    """A constant; `value` is a CEL value (see cel.values)."""

    id: int
    offset: int
    value: Constant


@dataclass(slots=True, eq=False)
class Ident:
    """A name, as written; a leading dot stays in it."""

    id: int
    offset: int
    name: str


@dataclass(slots=True, eq=False)
class Select:
    """`operand.field`, or with `test` the presence test that `has()` makes of it."""

    id: int
    offset: int
    operand: "SyntaxNode"
    field: str
    test: bool = False


@dataclass(slots=True, eq=False)
class Call:
    """`function(args)` or `target.function(args)`."""

    id: int
    offset: int
    function: str
    target: "SyntaxNode | None"
    args: "tuple[SyntaxNode, ...]"


@dataclass(slots=True, eq=False)
class ListLiteral:
    """`[a, ?b]`; `optional` holds the indices marked with a question mark."""

    id: int
    offset: int
    elements: "tuple[SyntaxNode, ...]"
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Entry:
    """One entry of a map (`key` a node) or of a message (`key` a field name)."""

    id: int
    offset: int
    key: "SyntaxNode | str"
    value: "SyntaxNode"
    optional: bool = False


@dataclass(slots=True, eq=False)
class MapLiteral:
    """`{k: v, ?k: v}`."""

    id: int
    offset: int
    entries: tuple[Entry, ...]


@dataclass(slots=True, eq=False)
class MessageLiteral:
    """`Name{field: v, ?field: v}`."""

    id: int
    offset: int
    name: str
    entries: tuple[Entry, ...]


@dataclass(slots=True, eq=False)
class Comprehension:
    """What the iterating macros become: a fold over a range with an accumulator."""

    id: int
    offset: int
    range: "SyntaxNode"
    variable: str
    second_variable: str | None
    accumulator: str
    initial: "SyntaxNode"
    condition: "SyntaxNode"
    step: "SyntaxNode"
    result: "SyntaxNode"


SyntaxNode = (
    Literal | Ident | Select | Call | ListLiteral | MapLiteral | MessageLiteral | Comprehension
)


def copied(node: SyntaxNode, new_id: Callable[[], int]) -> SyntaxNode:
    """A copy of the tree under `node` with ids of its own."""
    copy: dict[int, SyntaxNode] = {}
    for each in reversed(below(node)):
        copy[id(each)] = _copy(each, new_id, copy)
    return copy[id(node)]


def below(node: SyntaxNode) -> list[SyntaxNode]:
    """The node and all under it, each before what is under it."""
    found = [node]
    for each in found:
        found.extend(children(each))
    return found


def children(node: SyntaxNode) -> tuple[SyntaxNode, ...]:  # noqa: PLR0911  # one for each kind of node
    """The nodes right under `node`, in the order in which they are written."""
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


def _copy(
    node: SyntaxNode, new_id: Callable[[], int], copy: Mapping[int, SyntaxNode]
) -> SyntaxNode:
    """A copy of one node over the copies of what is under it."""
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
    entries: Sequence[Entry], new_id: Callable[[], int], copy: Mapping[int, SyntaxNode]
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
