"""Resolves names, fields and calls; a call may refer to several overloads."""

from collections.abc import Sequence

from drawbridge.cel.ast import Call, CelNode, Entry, Ident, Literal, Select
from drawbridge.cel.checking import Checking, Resolved
from drawbridge.cel.declare import Function
from drawbridge.cel.scopes import Signature
from drawbridge.cel.types import BOOL, DYN, ERROR, Type, describe, optional_of
from drawbridge.cel.unify import (
    STRICT,
    instantiate,
    is_dynamic,
    is_wild,
    matches_plainly,
    unwrapped,
)

_LOGICAL = frozenset({"_&&_", "_||_"})


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


def call(state: Checking, node: Call) -> None:
    """Check an operator, a function call, a member call or a call of a qualified name."""
    if node.function == "_?._":
        state.later(optional_field, node, node.args[0])
    elif node.target is None:
        state.later(global_call, node, *node.args)
    else:
        parts = qualified_name(state, node.target)
        function = parts and state.declarations.function(f"{parts[1]}.{node.function}")
        if function:
            state.later(namespaced_call, (node, function), *node.args)
        else:
            state.later(member_call, node, *node.args, node.target)


def global_call(state: Checking, node: Call) -> None:
    """Check a call without a target."""
    function = state.declarations.function(node.function)
    if function is None:
        state.undeclared(node, node.function)
    elif function.name in _LOGICAL:
        logical_call(state, node, function)
    else:
        resolve(state, node, function, node.args)


def namespaced_call(state: Checking, whole: tuple[Call, Function]) -> None:
    """Check a call whose target is part of the function name."""
    node, function = whole
    resolve(state, node, function, node.args, namespaced=True)


def member_call(state: Checking, node: Call) -> None:
    """Check a call on a target."""
    function = state.declarations.function(node.function)
    if function is None or node.target is None:
        state.undeclared(node, node.function)
    else:
        resolve(state, node, function, (node.target, *node.args), member=True)


def logical_call(state: Checking, node: Call, function: Function) -> None:
    """`&&` and `||` report each operand that has a wrong type."""
    fine = True
    for arg in node.args:
        type_ = state.types[arg.id]
        if not state.unifier.fits(type_, BOOL):
            state.mismatch(arg, BOOL, type_)
            fine = False
    state.types[node.id] = BOOL if fine else ERROR
    state.calls[node.id] = Resolved(function, function.overloads, namespaced=False)


def resolve(  # noqa: PLR0913  # the two ways in which a call may be written are flags
    state: Checking,
    node: Call,
    function: Function,
    args: Sequence[CelNode],
    *,
    member: bool = False,
    namespaced: bool = False,
) -> None:
    """Return the overloads that the argument types allow."""
    types = [state.types[arg.id] for arg in args]
    kinds = [type_.kind if type_.kind in STRICT else "" for type_ in types]
    result: Type | None = None
    overloads = []
    for signature in state.declarations.signatures.get((function.name, member, len(types)), ()):
        if not _possible(signature.kinds, kinds):
            continue
        fitting = _result_of(state, signature, types)
        if fitting is None:
            continue
        overloads.append(signature.overload)
        if result is None:
            result = fitting
        elif not is_dynamic(result) and not state.unifier.same(fitting, result):
            result = DYN
    if result is None:
        no_overload(state, node, function.name, types, member=member)
        result = ERROR
    else:
        state.calls[node.id] = Resolved(function, tuple(overloads), namespaced)
    state.types[node.id] = result


def _possible(expected: Sequence[str], actual: Sequence[str]) -> bool:
    """Tell whether the kinds of the arguments allow an overload; this rejects most of them."""
    for left, right in zip(expected, actual, strict=True):  # twice as fast as all()
        if left != right and left and right:
            return False
    return True


def _result_of(state: Checking, signature: Signature, types: Sequence[Type]) -> Type | None:
    """Return the result type of an overload, or None if the arguments do not fit."""
    overload, parameters, _ = signature
    unifier = state.unifier
    bound: dict[str, Type] = {}
    result = overload.result
    if matches_plainly(overload.params, types, bound) and len(bound) == len(parameters):
        if not parameters:
            return result
        result = instantiate(result, bound)
        return unifier.resolve(result) if unifier.bound else result
    params: Sequence[Type] = overload.params
    if parameters:
        variables = {name: unifier.variable() for name in parameters}
        params = [instantiate(param, variables) for param in params]
        result = instantiate(result, variables)
    if not unifier.all_fit(types, params):
        return None
    result = unifier.resolve(result)
    state.open = state.open or not unifier.is_closed(result)
    return result


def no_overload(state: Checking, node: Call, name: str, types: list[Type], *, member: bool) -> None:
    """Report that a function has no overload for these arguments."""
    spelt = [describe(state.unifier.resolve(type_, dynamic=True)) for type_ in types]
    target = f"{spelt.pop(0)}." if member else ""
    message = f"found no matching overload for '{name}' applied to '{target}({', '.join(spelt)})'"
    state.complain("no_matching_overload", node, message)
