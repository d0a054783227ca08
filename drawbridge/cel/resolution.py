"""Resolves calls: the overloads that a call may refer to, by its argument types."""

from collections.abc import Sequence

from drawbridge.cel.ast import Call, CelNode
from drawbridge.cel.checking import Checking, Resolved
from drawbridge.cel.declare import Function
from drawbridge.cel.fields import optional_field, qualified_name
from drawbridge.cel.scopes import Signature
from drawbridge.cel.types import BOOL, DYN, ERROR, Type, describe
from drawbridge.cel.unify import STRICT, instantiate, is_dynamic, matches_plainly

_LOGICAL = frozenset({"_&&_", "_||_"})


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
