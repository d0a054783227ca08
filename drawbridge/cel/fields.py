"""Checks qualified names and field selections."""

from drawbridge.cel.ast import Call, CelNode, Entry, Ident, Literal, Select
from drawbridge.cel.checking import Checking, Resolved
from drawbridge.cel.types import BOOL, DYN, ERROR, Type, describe, optional_of
from drawbridge.cel.unify import is_wild, unwrapped


def select(state: Checking, node: Select) -> None:
    """Check a qualified name or a field selection."""
    parts = qualified_name(state, node)
    resolution = parts and state.scope.find_qualified(*parts)
    if resolution:
        state.names[node.id], state.types[node.id] = resolution
        return
    state.later(field, node, node.operand)


def qualified_name(state: Checking, node: CelNode) -> tuple[str, str] | None:
    """Return the first part and all of the name that `node` spells, if it can be a name."""
    fields = []
    while isinstance(node, Select) and not node.test:
        fields.append(node.field)
        node = node.operand
    if not isinstance(node, Ident) or not state.declarations.may_qualify(node.name):
        return None
    return node.name, ".".join((node.name, *reversed(fields)))


def field(state: Checking, node: Select) -> None:
    """Check a field selection after its operand."""
    type_ = field_type(state, node, node.operand, node.field, optional=False)
    state.types[node.id] = BOOL if node.test else state.unifier.resolve(type_)


def optional_field(state: Checking, node: Call) -> None:
    """Check an optional field selection after its operand."""
    operand, name = node.args
    field = name.value if isinstance(name, Literal) else None
    type_ = field_type(state, node, operand, str(field), optional=True)
    state.types[node.id] = state.unifier.resolve(type_)
    function = state.declarations.functions[node.function]
    state.calls[node.id] = Resolved(function, function.overloads, namespaced=False)


def field_type(
    state: Checking, node: CelNode, operand: CelNode, field: str, *, optional: bool
) -> Type:
    """Return the type of a field; it is optional for an optional selection or operand."""
    held, wrapped = unwrapped(state.unifier.resolve(state.types[operand.id]))
    result = DYN
    if held.kind == "map":
        result = held.params[1]
    elif held.kind == "object":
        result = object_field(state, node, held.name, field)
    elif held.kind == "param":
        state.unifier.fits(DYN, held)
    elif not is_wild(held):
        message = f"type '{describe(held)}' does not support field selection"
        state.complain("field_selection", node, message)
    return optional_of(result) if optional or wrapped else result


def object_field(state: Checking, node: CelNode | Entry, name: str, field: str) -> Type:
    """Return the type of a field of an object."""
    fields = state.declarations.objects.get(name)
    if fields is None:
        state.complain("undeclared", node, f"unexpected failed resolution of '{name}'")
        return ERROR
    if field not in fields:
        state.complain("undefined_field", node, f"undefined field '{field}'")
    return fields.get(field, ERROR)
