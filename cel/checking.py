"""The state of a check: what is known so far, what is wrong, and what is left to do.

Knows no kind of node: what is done with one is a function of the visitors' table. There is a stack
of what is to be done instead of recursion, so that no nesting is a matter of Python's stack.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cel.ast import Entry, SyntaxNode
from cel.declare import Function, Overload
from cel.lexer import Complaint
from cel.scopes import Declarations, ResolvedName, VariableScope
from cel.types import DYN, ERROR, NULL, Type, describe
from cel.unify import Unifier


class Resolved(NamedTuple):
    """What a call means: the overloads of `function` that it may be, as far as types can say.

    `namespaced`: the target is part of the function's name and no operand.
    """

    function: Function
    overloads: tuple[Overload, ...]
    namespaced: bool


# The subject's type is the action's own business.
Action = Callable[["Checking", Any], None]
Visitors = Mapping[type, Action]


class Checking:
    """The state of one check; the task that comes next is the last of `todo`."""

    __slots__ = (
        "aggregates", "calls", "complaints", "declarations", "names", "open", "scope", "todo",
        "types", "unifier", "visitors",
    )  # fmt: skip

    def __init__(self, declarations: Declarations, visitors: Visitors) -> None:
        self.declarations = declarations
        self.visitors = visitors
        self.scope = VariableScope(declarations, {})
        self.unifier = Unifier()
        self.aggregates = False
        # whether there may be type variables in the types
        self.open = False
        self.types: dict[int, Type] = {}
        self.names: dict[int, ResolvedName] = {}
        self.calls: dict[int, Resolved] = {}
        self.complaints: list[Complaint] = []
        self.todo: list[tuple[Action, object]] = []

    def run(self, root: SyntaxNode) -> None:
        """Check the whole tree."""
        todo = self.todo
        todo.append((visit, root))
        while todo:
            action, subject = todo.pop()
            action(self, subject)
        if self.open:
            resolve = self.unifier.resolve
            for identity, type_ in self.types.items():
                self.types[identity] = resolve(type_, dynamic=True)

    def variable(self) -> Type:
        """A type that is not known yet."""
        self.open = True
        return self.unifier.variable()

    def later(self, action: Action, subject: object, *children: SyntaxNode) -> None:
        """First visit the children in order, then act."""
        todo = self.todo
        todo.append((action, subject))
        for child in reversed(children):
            todo.append((visit, child))

    def complain(self, kind: str, node: SyntaxNode | Entry, message: str) -> None:
        """Note what is wrong."""
        self.complaints.append(Complaint(kind, node.offset, message))

    def mismatch(self, node: SyntaxNode | Entry, expected: Type, found: Type) -> None:
        """Note that one type was found where another had to be."""
        message = f"expected type '{describe(expected)}' but found '{describe(found)}'"
        self.complain("type_mismatch", node, message)

    def undeclared(self, node: SyntaxNode, name: str) -> None:
        """Note that a name means nothing."""
        within = self.declarations.container
        message = f"undeclared reference to '{name}' (in container '{within}')"
        self.complain("undeclared", node, message)
        self.types[node.id] = ERROR

    def join(self, before: Type | None, type_: Type) -> Type:
        """The type of elements of both types.

        Beside null the other type, as the language's definition has it; the reference takes the
        latter, but refuses literals with both anyhow where it is Kubernetes's.
        """
        if before is None:
            return type_
        if not self.unifier.fits(before, type_):
            return DYN
        if NULL.kind in {before.kind, type_.kind}:
            return type_ if before.kind == NULL.kind else before
        return self.unifier.general(before, type_)


def visit(state: Checking, node: SyntaxNode) -> None:
    """Check a node; what has to wait for its children is put off."""
    state.visitors[type(node)](state, node)
