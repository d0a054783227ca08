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
    children,
)
from drawbridge.cel.checking import LITERALS, Checking, Resolved, Visitors
from drawbridge.cel.errors import CompileError, Problem
from drawbridge.cel.lexer import Complaint, locate_problems
from drawbridge.cel.meter import EXCEEDED, MESSAGE
from drawbridge.cel.resolution import call, object_field, select
from drawbridge.cel.scopes import Declarations, ResolvedName, VariableScope, declare
from drawbridge.cel.types import BOOL, DYN, ERROR, INT, Type, describe, list_of, map_of, optional_of
from drawbridge.cel.unify import TooComplexError, is_dynamic, unwrapped

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


def list_literal(state: Checking, node: ListLiteral) -> None:
    """Visit the elements first."""
    if len(node.elements) > 1:
        state.aggregates.append(node)
    state.later(list_type, node, *node.elements)


def list_type(state: Checking, node: ListLiteral) -> None:
    """Assign the type of a list from its elements."""
    joined: Type | None = None
    for index, element in enumerate(node.elements):
        type_ = state.types[element.id]
        if index in node.optional:
            type_ = optional_value_type(state, element, type_)
        joined = state.join(joined, type_)
    state.types[node.id] = list_of(joined or state.variable())


def map_literal(state: Checking, node: MapLiteral) -> None:
    """Visit the keys and values first."""
    if len(node.entries) > 1:
        state.aggregates.append(node)
    state.later(map_type, node, *children(node))


def map_type(state: Checking, node: MapLiteral) -> None:
    """Assign the type of a map from its keys and values."""
    key_type: Type | None = None
    value_type: Type | None = None
    for entry in node.entries:
        if isinstance(entry.key, str):
            continue  # a field name, which only a message has
        key_type = state.join(key_type, state.types[entry.key.id])
        type_ = state.types[entry.value.id]
        if entry.optional:
            type_ = optional_value_type(state, entry.value, type_)
        value_type = state.join(value_type, type_)
    variable = state.variable
    state.types[node.id] = map_of(key_type or variable(), value_type or variable())


def optional_value_type(state: Checking, node: CelNode, type_: Type) -> Type:
    """Return the value type of an optional element, which must be an optional."""
    inner, optional = unwrapped(type_)
    if not optional and not is_dynamic(inner):
        state.mismatch(node, optional_of(inner), inner)
    return inner


def message_literal(state: Checking, node: MessageLiteral) -> None:
    """Visit the field values first."""
    state.later(message_type, node, *children(node))


def message_type(state: Checking, node: MessageLiteral) -> None:
    """Assign the type of a message and check its field values."""
    resolution = state.scope.find(node.name)
    if resolution is None:
        state.undeclared(node, node.name)
        return
    state.names[node.id], meant = resolution
    result = state.types[node.id] = _instance(state, node, meant)
    name = result.name if result.kind == "object" else resolution[0].name
    for entry in node.entries if result is not ERROR else ():
        expected = object_field(state, entry, name, str(entry.key))
        type_ = state.types[entry.value.id]
        if entry.optional:
            type_ = optional_value_type(state, entry.value, type_)
        if not state.unifier.fits(expected, type_):
            state.mismatch(entry, expected, type_)


def _instance(state: Checking, node: MessageLiteral, meant: Type) -> Type:
    """Return the message type that a type name refers to."""
    if meant.kind != "type":
        state.complain("type_mismatch", node, f"'{describe(meant)}' is not a type")
        return ERROR
    type_ = meant.params[0] if meant.params else meant
    if type_.kind == "object" or state.names[node.id].name in state.declarations.objects:
        return type_
    state.complain("type_mismatch", node, f"'{describe(type_)}' is not a message type")
    return ERROR


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
