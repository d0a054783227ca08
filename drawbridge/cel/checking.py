"""The state of a type check: known types, errors and pending tasks.

Uses a stack of tasks instead of recursion, so nesting depth does not depend on Python's stack.
Functions in the table of visitors check each kind of node.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from drawbridge.cel.ast import CelNode, Entry, ListLiteral, Literal, MapLiteral
from drawbridge.cel.declare import Function, Overload
from drawbridge.cel.lexer import Complaint
from drawbridge.cel.scopes import Declarations, ResolvedName, VariableScope
from drawbridge.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Type,
    describe,
)
from drawbridge.cel.unify import Unifier
from drawbridge.cel.values import Uint

LITERALS: Mapping[type, Type] = {
    bool: BOOL, int: INT, Uint: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL,
}  # fmt: skip


class Resolved(msgspec.Struct, frozen=True):
    """A resolved call: the overloads of `function` that the argument types allow.

    If `namespaced`, the target is part of the function name and not an operand.
    """

    function: Function
    overloads: tuple[Overload, ...]
    namespaced: bool


# Each action knows the type of its subject.
Action = Callable[["Checking", Any], None]
Visitors = Mapping[type, Action]
Task = tuple[Action, object]


class Checking:
    """The state of one check; the next task is the last entry of `todo`."""

    __slots__ = (
        "aggregates", "calls", "complaints", "declarations", "names", "open", "scope", "todo",
        "types", "unifier", "visitors",
    )  # fmt: skip

    def __init__(self, declarations: Declarations, visitors: Visitors) -> None:
        self.declarations = declarations
        self.visitors = visitors
        self.scope = VariableScope(declarations, {})
        self.unifier = Unifier()
        self.aggregates: list[ListLiteral | MapLiteral] = []
        # whether the types may contain type variables
        self.open = False
        self.types: dict[int, Type] = {}
        self.names: dict[int, ResolvedName] = {}
        self.calls: dict[int, Resolved] = {}
        self.complaints: list[Complaint] = []
        self.todo: list[Task] = []

    def run(self, root: CelNode) -> None:
        """Check the whole tree."""
        todo = self.todo
        todo.append(self.visiting(root))
        while todo:
            action, subject = todo.pop()
            action(self, subject)
        if self.open:
            resolve = self.unifier.resolve
            for identity, type_ in self.types.items():
                self.types[identity] = resolve(type_, dynamic=True)

    def variable(self) -> Type:
        """Return a new type variable."""
        self.open = True
        return self.unifier.variable()

    def later(self, action: Action, subject: object, *children: CelNode) -> None:
        """Visit the children in order, then run the action. A constant needs no visit."""
        todo, visitors = self.todo, self.visitors
        todo.append((action, subject))
        for child in reversed(children):
            if type(child) is Literal:
                self.types[child.id] = LITERALS[type(child.value)]
            else:
                todo.append((visitors[type(child)], child))

    def visiting(self, node: CelNode) -> Task:
        """Return the task of checking a node; its action defers what depends on the children."""
        return self.visitors[type(node)], node

    def complain(self, kind: str, node: CelNode | Entry, message: str) -> None:
        """Record an error."""
        self.complaints.append(Complaint(kind, node.offset, message))

    def mismatch(self, node: CelNode | Entry, expected: Type, actual: Type) -> None:
        """Record a type mismatch."""
        message = f"expected type '{describe(expected)}' but found '{describe(actual)}'"
        self.complain("type_mismatch", node, message)

    def undeclared(self, node: CelNode, name: str) -> None:
        """Record an undeclared name."""
        message = f"undeclared reference to '{name}' (in container '')"
        self.complain("undeclared", node, message)
        self.types[node.id] = ERROR

    def join(self, before: Type | None, type_: Type) -> Type:
        """Return the element type of a literal with elements of both types.

        The join of null and another type is the other type, as the CEL specification defines it.
        cel-go returns the latter of the two, but refuses such literals in all environments of
        Kubernetes.
        """
        if before is None:
            return type_
        if not self.unifier.fits(before, type_):
            return DYN
        if NULL.kind in {before.kind, type_.kind}:
            return type_ if before.kind == NULL.kind else before
        return self.unifier.general(before, type_)
