"""The type checker: determines the type of each node and resolves names and calls.

Checks children first, in cel-go's order, because the binding of a type parameter depends on earlier
nodes. Does not change the tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from drawbridge.cel.ast import (
    Call,
    CelNode,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    MessageLiteral,
    Select,
)
from drawbridge.cel.checking import LITERALS, Checking, Resolved, Visitors
from drawbridge.cel.composites import list_literal, map_literal, message_literal
from drawbridge.cel.errors import CompileError, Problem
from drawbridge.cel.fields import select
from drawbridge.cel.lexer import Complaint, locate_problems
from drawbridge.cel.meter import EXCEEDED, MESSAGE
from drawbridge.cel.resolution import call
from drawbridge.cel.scopes import Declarations, ResolvedName, VariableScope, declare
from drawbridge.cel.types import BOOL, DYN, ERROR, INT, Type, describe
from drawbridge.cel.unify import TooComplexError

__all__ = ["Checked", "Declarations", "Resolved", "ResolvedName", "check", "declare"]

_COMPLAINTS = 100


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked tree: types, names and calls, each keyed by node id.

    `names` has every Ident, and every Select that spells a qualified name. `aggregates` are the
    list and map literals with more than one element.
    """

    node: CelNode
    types: dict[int, Type]
    names: dict[int, ResolvedName]
    calls: dict[int, Resolved]
    aggregates: Sequence[ListLiteral | MapLiteral]


def check(node: CelNode, source: str, declarations: Declarations) -> Checked:
    """Return the checked tree of `source`, or raise CompileError with all type errors."""
    state = Checking(declarations, _VISITORS)
    try:
        state.run(node)
    except TooComplexError:
        raise CompileError((Problem(EXCEEDED, 0, 0, MESSAGE),)) from None
    except RecursionError:
        message = "the types of the expression are too complex"
        raise CompileError(locate_problems([Complaint("recursion", -1, message)], source)) from None
    if state.complaints:
        raise CompileError(locate_problems(state.complaints[:_COMPLAINTS], source))
    return Checked(node, state.types, state.names, state.calls, state.aggregates)


def literal(state: Checking, node: Literal) -> None:
    """Assign the type of a constant."""
    state.types[node.id] = LITERALS[type(node.value)]


def ident(state: Checking, node: Ident) -> None:
    """Resolve an unqualified name."""
    resolution = state.scope.find(node.name)
    if resolution is None:
        state.undeclared(node, node.name)
    else:
        state.names[node.id], state.types[node.id] = resolution
        state.open = (
            state.open or resolution[0].type is not None
        )  # `list` means a list of any elements


def comprehension(state: Checking, node: Comprehension) -> None:
    """Check the range and the initial value of the accumulator first."""
    state.later(enter_loop, node, node.range, node.initial)


def enter_loop(state: Checking, node: Comprehension) -> None:
    """Check the loop with its variables in scope, then the result."""
    outer = state.scope
    accumulated = state.types[node.initial.id]
    inner = outer.within({node.accumulator: accumulated})
    state.scope = inner.within(iterated(state, node))
    state.todo += [
        (leave_comprehension, (node, outer)),
        state.visiting(node.result),
        (leave_scope, inner),
        (expect, (node.step, accumulated)),
        state.visiting(node.step),
        (expect, (node.condition, BOOL)),
        state.visiting(node.condition),
    ]


def iterated(state: Checking, node: Comprehension) -> dict[str, Type]:
    """Return the loop variables and their types."""
    type_ = state.unifier.resolve(state.types[node.range.id])
    first = second = DYN
    if type_.kind == "list":
        first, second = (INT if node.second_variable else type_.params[0]), type_.params[0]
    elif type_.kind == "map":
        first, second = type_.params
    elif type_.kind in {"dyn", "error", "param"}:
        state.unifier.fits(DYN, type_)
    else:
        message = (
            f"expression of type '{describe(type_)}' cannot be range of a comprehension "
            "(must be list, map, or dynamic)"
        )
        state.complain("not_iterable", node.range, message)
        first = second = ERROR
    if node.second_variable:
        return {node.variable: first, node.second_variable: second}
    return {node.variable: first}


def expect(state: Checking, claim: tuple[CelNode, Type]) -> None:
    """Require that a node has a given type."""
    node, type_ = claim
    if not state.unifier.fits(type_, state.types[node.id]):
        state.mismatch(node, type_, state.types[node.id])


def leave_scope(state: Checking, scope: VariableScope) -> None:
    """Leave an inner scope."""
    state.scope = scope


def leave_comprehension(state: Checking, whole: tuple[Comprehension, VariableScope]) -> None:
    """Assign the type of the result to the comprehension."""
    node, state.scope = whole
    state.types[node.id] = state.unifier.resolve(state.types[node.result.id])


_VISITORS: Visitors = {
    Literal: literal,
    Ident: ident,
    Select: select,
    Call: call,
    ListLiteral: list_literal,
    MapLiteral: map_literal,
    MessageLiteral: message_literal,
    Comprehension: comprehension,
}
