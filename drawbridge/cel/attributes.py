"""Plans access to variables and their fields: `device.attributes["d"].model`, `l[i]`, `has(x.y)`.

Like cel-go, this module plans a chain of selections as one attribute with qualifiers, and charges
per qualifier.
"""

from collections.abc import Callable, Sequence

import msgspec

from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.frame import (
    COST,
    COST_LIMIT,
    Frame,
    Run,
    cancel_over_limit,
    charge,
    with_offset,
)
from drawbridge.cel.fresh_stack import on_fresh_stack
from drawbridge.cel.values import MISSING, NONE, Map, Optional, find

CONTAINERS = (dict, list, tuple, Map)
KEYS = (str, bool, int, float)
Take = Callable[[Frame, object], object]
CHOICES = 40  # nested conditionals that share one stack


class Qualifier(msgspec.Struct, eq=False):
    """One step into a value: by a constant key, or by the key that `index` computes."""

    offset: int
    key: object = None
    index: Run | None = None
    optional: bool = False
    test: bool = False


class QualifiedAttribute(msgspec.Struct, eq=False):
    """A variable, an operand or a conditional of two attributes, with qualifiers.

    Exactly one of `slot`, `operand` and `branches` is set; `operand` selects one of the `branches`.
    """

    offset: int
    slot: int = -1
    operand: Run | None = None
    branches: "tuple[QualifiedAttribute, QualifiedAttribute] | None" = None
    qualifiers: list[Qualifier] = []
    test: bool = False
    depth: int = 0
    leaves: int = 1  # the attributes that a qualifier is added to

    def add(self, qualifier: Qualifier) -> "QualifiedAttribute":
        """Append a qualifier; for a conditional, append it to both branches."""
        if self.branches is not None:
            self.branches[0].add(qualifier)
            self.branches[1].add(qualifier)
        else:
            self.qualifiers.append(qualifier)
        self.test = self.test or qualifier.test
        return self

    def path(self) -> tuple[str, ...] | None:
        """Return the keys if this is a variable with only constant string keys, else None."""
        if self.slot < 0 or not self.qualifiers or self.test:
            return None
        keys = []
        for qualifier in self.qualifiers:
            if type(qualifier.key) is not str or qualifier.index or qualifier.optional:
                return None
            keys.append(qualifier.key)
        return tuple(keys)


def look_up(container: object, key: object) -> object:
    """Return the value under a key, or MISSING; a value without fields has no keys."""
    if isinstance(container, CONTAINERS):
        return find(container, key)
    return MISSING


def missing_key_error(container: object, key: object) -> EvaluationError:
    """Return the error for a key that does not exist."""
    if isinstance(container, list | tuple):
        return EvaluationError("index", f"index out of bounds: {key}")
    return EvaluationError("no_such_key", f"no such key: {key}")


def evaluate(attribute: QualifiedAttribute) -> Run:
    """Plan the attribute as an expression of its own, which charges 1 for the variable."""
    path = attribute.path()
    if path is not None:
        return _plan_path(attribute, path, len(path) + 1)
    if attribute.slot >= 0 and not attribute.qualifiers:
        return _variable(attribute.slot)
    return _charge_variable(attribute)


def resolve(attribute: QualifiedAttribute) -> Run:
    """Plan the attribute as a branch or an index, which charges only the qualifiers."""
    path = attribute.path()
    if path is not None:
        return _plan_path(attribute, path, len(path))
    return _plan_general(attribute)


def _variable(slot: int) -> Run:
    def run(frame: Frame) -> object:
        cost = frame[COST] = frame[COST] + 1
        if cost > COST_LIMIT:
            cancel_over_limit(frame, (1,))
        value = frame[slot]
        if value is MISSING:
            raise EvaluationError("undeclared", "no such attribute")
        return value

    return run


def _charge_variable(attribute: QualifiedAttribute) -> Run:
    """Charge for the variable after all qualifiers, whether they succeed or fail."""
    resolved = _plan_general(attribute)
    # cel-go subtracts the cost of the variable for a presence test; a conditional has no variable.
    own = (0 if attribute.branches else 1) - (1 if attribute.test else 0)
    offset, test = attribute.offset, attribute.test

    def run(frame: Frame) -> object:
        try:
            value = resolved(frame)
        except EvaluationError as error:
            charge(frame, own)
            raise with_offset(error, offset) from None
        charge(frame, own)
        if test and type(value) is Optional:
            return value.present
        return value

    return run if own or test else resolved


def _plan_path(attribute: QualifiedAttribute, path: tuple[str, ...], units: int) -> Run:
    """Plan the most frequent chains in one closure; a failed lookup uses the general plan."""
    slow: list[Run] = []
    extra = units - len(path)
    slot, offset = attribute.slot, attribute.offset
    steps = (1,) * units

    def failed(frame: Frame) -> object:
        if not slow:
            # Planned on first use, which most programs never reach.
            slow.append(_plan_general(attribute))
        try:
            value = slow[0](frame)
        except EvaluationError as error:
            charge(frame, extra)
            raise with_offset(error, offset) from None
        charge(frame, extra)
        return value

    def run(frame: Frame) -> object:
        value = frame[slot]
        try:
            for key in path:
                value = value[key]
        except (KeyError, TypeError):
            return failed(frame)
        cost = frame[COST] = frame[COST] + units
        if cost > COST_LIMIT:
            cancel_over_limit(frame, steps)
        return value

    return run


def _plan_general(attribute: QualifiedAttribute) -> Run:
    """Resolve the base, then apply the qualifiers one by one."""
    base = _base(attribute)
    qualifiers = attribute.qualifiers
    if attribute.branches is not None:
        return base
    first = next((i for i, q in enumerate(qualifiers) if q.optional), len(qualifiers))
    gets = [_getter(q) for q in qualifiers[:first]]
    rest = [_finder(q) for q in qualifiers[first:]]

    def run(frame: Frame) -> object:
        value = base(frame)
        if type(value) is Optional:
            if not value.present:
                return value
            return _plan_optional(frame, value.value, [_finder(q) for q in qualifiers])
        for get in gets:
            value = get(frame, value)
        return _plan_optional(frame, value, rest) if rest else value

    return run


def _plan_optional(frame: Frame, value: object, finds: Sequence[Take]) -> object:
    """Apply qualifiers while there is a value; the result is an optional."""
    for find_ in finds:
        value = find_(frame, value)
        if value is MISSING:
            return NONE
    return Optional(value)


def _base(attribute: QualifiedAttribute) -> Run:
    slot, operand = attribute.slot, attribute.operand
    if attribute.branches is None:
        return operand if operand is not None else _plain_variable(slot)
    deep = attribute.depth % CHOICES == CHOICES - 1
    choose = on_fresh_stack(_choice, attribute) if deep else _choice(attribute)
    return (lambda frame: on_fresh_stack(choose, frame)) if deep else choose


def _choice(attribute: QualifiedAttribute) -> Run:
    condition, offset = attribute.operand, attribute.offset
    assert condition is not None  # noqa: S101  # see QualifiedAttribute
    assert attribute.branches is not None  # noqa: S101  # see QualifiedAttribute
    truthy, falsy = resolve(attribute.branches[0]), resolve(attribute.branches[1])

    def choose(frame: Frame) -> object:
        value = condition(frame)
        if value is True:
            return truthy(frame)
        if value is False:
            return falsy(frame)
        raise EvaluationError("no_such_overload", "no such overload", offset)

    return choose


def _plain_variable(slot: int) -> Run:
    def run(frame: Frame) -> object:
        value = frame[slot]
        if value is MISSING:
            raise EvaluationError("undeclared", "no such attribute")
        return value

    return run


def _plan_key(qualifier: Qualifier) -> Run | None:
    """Return a closure that computes the key."""
    if qualifier.index is None:
        return None
    index = qualifier.index

    def run(frame: Frame) -> object:
        key = index(frame)
        if not isinstance(key, KEYS):
            raise EvaluationError("no_such_overload", "invalid qualifier type")
        return key

    return run


def _getter(qualifier: Qualifier) -> Take:
    """Return a qualifier that fails if the key does not exist; it always costs 1."""
    constant, dynamic, test, offset = (
        qualifier.key,
        _plan_key(qualifier),
        qualifier.test,
        qualifier.offset,
    )

    def get(frame: Frame, container: object) -> object:
        try:
            key = constant if dynamic is None else dynamic(frame)
            value = look_up(container, key)
            if value is MISSING and not test:
                raise missing_key_error(container, key)
        except EvaluationError as error:
            charge(frame, 1)
            raise with_offset(error, offset) from None
        charge(frame, 1)
        return value is not MISSING if test else value

    return get


def _finder(qualifier: Qualifier) -> Take:
    """Return a qualifier that accepts a missing key; it costs 1 only if the key exists."""
    constant, dynamic = qualifier.key, _plan_key(qualifier)

    def find_(frame: Frame, container: object) -> object:
        key = constant if dynamic is None else dynamic(frame)
        value = look_up(container, key)
        if value is not MISSING:
            charge(frame, 1)
        return value

    return find_
