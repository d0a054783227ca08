"""Selects the overload of a call whose argument types are known only at run time.

If the checker resolved one overload, it is called if the values fit. Of several overloads, the
first that fits is called. Arguments whose types are certain are not examined.

The checker takes a value of unknown type for any that its use asks for. As in cel-go, a function
that is implemented once works on the kinds of the values then; here, only if its price is the same.
"""

from collections.abc import Callable, Container, Sequence

from drawbridge.cel import ast
from drawbridge.cel.checker import Checked, Resolved
from drawbridge.cel.declare import Cost, Implementation, Overload
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library.prices import PRICES
from drawbridge.cel.meter import Price
from drawbridge.cel.shapes import is_whole
from drawbridge.cel.types import DYN, Type
from drawbridge.cel.values import fits

Guard = Callable[[object], bool]
OPEN = frozenset({"dyn", "any", "param", "error", "wrapper", "object", "null"})


def cost_of(resolved: Resolved) -> Cost | None:
    """Return the cost function of a call, or None if the call costs 1."""
    if len(resolved.overloads) == 1 and resolved.overloads[0].cost is not None:
        return resolved.overloads[0].cost
    return resolved.function.cost


def price_of(resolved: Resolved, count: int) -> Price | None:
    """Return the price of a call with `count` arguments, or None if no size changes its work."""
    if len(resolved.overloads) == 1:
        return PRICES.get(resolved.overloads[0].id)
    candidates = [
        (PRICES.get(overload.id), tuple(fits(declared) for declared in overload.params))
        for overload in resolved.function.overloads
        if len(overload.params) == count
    ]
    if all(price is None for price, _ in candidates):
        return None

    def price_by_values(*values: object) -> int:
        for price, guards in candidates:
            if all(g is None or g(v) for g, v in zip(guards, values, strict=True)):
                return price(*values) if price is not None else 0
        return 0

    return price_by_values


def guard_arguments(
    implementation: Implementation,
    resolved: Resolved,
    checked: Checked,
    arguments: Sequence[ast.CelNode],
    local: Container[str],
) -> Implementation:
    """Return the implementation of the one overload, with a check of uncertain arguments.

    `local` has the variables that macros declare.
    """
    (overload,) = resolved.overloads
    if overload.unguarded:
        return implementation
    guards: list[tuple[int, Guard]] = []
    for place, (declared, argument) in enumerate(zip(overload.params, arguments, strict=True)):
        guard = fits(declared) if _open(_certain_type(checked, argument, local)) else None
        if guard is not None:
            guards.append((place, guard))
    if not guards:
        return implementation
    function = resolved.function
    paid = (None, PRICES.get(overload.id))
    others = [each for each in function.overloads if PRICES.get(each.id) in paid]
    whole = is_whole(function.name)
    otherwise = dispatch_by_values(overload.id, others if whole else (), len(arguments))
    if len(arguments) == 1:
        return _guarded_one(implementation, guards[0][1], otherwise)
    if len(arguments) == 2:
        return _guarded_two(implementation, dict(guards), otherwise)

    def call(*values: object) -> object:
        for place, guard in guards:
            if not guard(values[place]):
                return otherwise(*values)
        return implementation(*values)

    return call


def _guarded_one(
    implementation: Implementation, guard: Guard, otherwise: Implementation
) -> Implementation:
    def call(value: object) -> object:
        if not guard(value):
            return otherwise(value)
        return implementation(value)

    return call


def _guarded_two(
    implementation: Implementation, guards: dict[int, Guard], otherwise: Implementation
) -> Implementation:
    first, second = guards.get(0), guards.get(1)

    def call(a: object, b: object) -> object:
        if (first is not None and not first(a)) or (second is not None and not second(b)):
            return otherwise(a, b)
        return implementation(a, b)

    return call


def dispatch_by_values(name: str, overloads: Sequence[Overload], count: int) -> Implementation:
    """Return a dispatcher to the first overload with `count` arguments that the values fit."""
    candidates = [
        (overload.implementation, tuple(fits(declared) for declared in overload.params))
        for overload in overloads
        if len(overload.params) == count
    ]

    def call(*values: object) -> object:
        for implementation, guards in candidates:
            for guard, value in zip(guards, values, strict=True):
                if guard is not None and not guard(value):
                    break
            else:
                return implementation(*values)
        raise EvaluationError("no_such_overload", f"no such overload: {name}")

    return call


def _certain_type(checked: Checked, node: ast.CelNode, local: Container[str]) -> Type:
    """Return the type that each value of an expression has, or DYN if the checker only assumes it.

    For the checker, null is of most types, and what has no type yet is of any. Certain are only
    constants, what the variables of the environment declare, and what a function declares to
    return.
    """
    type_ = checked.types.get(node.id, DYN)
    if isinstance(node, ast.Literal):
        return type_
    if isinstance(node, ast.Call) and node.function != "_[_]":
        resolved = checked.calls.get(node.id)
        results = [overload.result for overload in resolved.overloads] if resolved else [DYN]
        return DYN if any(map(_open, results)) else type_
    while node.id not in checked.names:
        if isinstance(node, ast.Select):
            node = node.operand
        elif isinstance(node, ast.Call) and node.function == "_[_]":
            node = node.args[0]
        else:
            return DYN
    return DYN if checked.names[node.id].name in local else type_


def _open(type_: Type) -> bool:
    return type_.kind in OPEN or any(_open(part) for part in type_.params)
