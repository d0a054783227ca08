"""Checks the types of list, map and message literals."""

from drawbridge.cel.ast import CelNode, ListLiteral, MapLiteral, MessageLiteral, children
from drawbridge.cel.checking import Checking
from drawbridge.cel.fields import object_field
from drawbridge.cel.types import ERROR, Type, describe, list_of, map_of, optional_of
from drawbridge.cel.unify import is_dynamic, unwrapped


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
