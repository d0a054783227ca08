"""Selects the overload of a call whose argument types are known only at run time.

If the checker resolved one overload, it is called if the values fit. Of several overloads, the
first that fits is called. Arguments whose types the checker knows are not examined.
"""

from collections.abc import Callable, Sequence

from drawbridge.cel.checker import Resolved
from drawbridge.cel.declare import Cost, Implementation, Overload
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library.prices import PRICES
from drawbridge.cel.meter import Price
from drawbridge.cel.types import Type
from drawbridge.cel.values import fits

Guard = Callable[[object], bool]
OPEN = frozenset({"dyn", "any", "param", "error", "wrapper", "object"})


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
    implementation: Implementation, overload: Overload, types: Sequence[Type]
) -> Implementation:
    """Return the implementation with a check of the arguments whose types are open."""
    guards: list[tuple[int, Guard]] = []
    for place, (declared, actual) in enumerate(zip(overload.params, types, strict=True)):
        guard = fits(declared) if _open(actual) else None
        if guard is not None:
            guards.append((place, guard))
    if not guards:
        return implementation
    name = overload.id
    if len(types) == 1:
        return _guarded_one(implementation, guards[0][1], name)
    if len(types) == 2:
        return _guarded_two(implementation, dict(guards), name)

    def call(*values: object) -> object:
        for place, guard in guards:
            if not guard(values[place]):
                raise _no_such_overload(name)
        return implementation(*values)

    return call


def _guarded_one(implementation: Implementation, guard: Guard, name: str) -> Implementation:
    def call(value: object) -> object:
        if not guard(value):
            raise _no_such_overload(name)
        return implementation(value)

    return call


def _guarded_two(
    implementation: Implementation, guards: dict[int, Guard], name: str
) -> Implementation:
    first, second = guards.get(0), guards.get(1)

    def call(a: object, b: object) -> object:
        if (first is not None and not first(a)) or (second is not None and not second(b)):
            raise _no_such_overload(name)
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
        raise _no_such_overload(name)

    return call


def _open(type_: Type) -> bool:
    return type_.kind in OPEN or any(_open(part) for part in type_.params)


def _no_such_overload(name: str) -> EvaluationError:
    return EvaluationError("no_such_overload", f"no such overload: {name}")
