"""The syntax tree, after macros: what the parser makes and everything else reads.

Nodes carry an `id` (unique in one expression, by which the checker's findings are filed) and an
`offset` into the source in characters. Operators are calls under their internal names (`_+_`,
`_&&_`, `@in`, ...), as in the language definition.
"""

from dataclasses import dataclass

# int is a CEL int; uint, bytes and the rest have their classes in dra.cel.values
Constant = object


@dataclass(slots=True, eq=False)
class Literal:
    """A constant; `value` is a CEL value (see dra.cel.values)."""

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
    operand: "Node"
    field: str
    test: bool = False


@dataclass(slots=True, eq=False)
class Call:
    """`function(args)` or `target.function(args)`."""

    id: int
    offset: int
    function: str
    target: "Node | None"
    args: "tuple[Node, ...]"


@dataclass(slots=True, eq=False)
class ListLiteral:
    """`[a, ?b]`; `optional` holds the indices marked with a question mark."""

    id: int
    offset: int
    elements: "tuple[Node, ...]"
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Entry:
    """One entry of a map (`key` a node) or of a message (`key` a field name)."""

    id: int
    offset: int
    key: "Node | str"
    value: "Node"
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
    range: "Node"
    variable: str
    second_variable: str | None
    accumulator: str
    initial: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"


Node = Literal | Ident | Select | Call | ListLiteral | MapLiteral | MessageLiteral | Comprehension
