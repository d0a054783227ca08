"""Access to variables and their parts: `device.attributes["d"].model`, `list[i]`, `has(x.y)`.

cel-go plans a whole chain of selections as one attribute with qualifiers, and counts by
qualifier; so does this. Knows nothing of calls and comprehensions but that they are run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cel.errors import EvaluationError
from cel.frame import COST, Frame, Run, charge, exceeded, placed
from cel.fresh_stack import on_fresh_stack
from cel.values import MISSING, NONE, Map, Optional, find

CONTAINERS = (dict, list, tuple, Map)
ASKED = (*CONTAINERS, Optional)
KEYS = (str, bool, int, float)
Take = Callable[[Frame, object], object]
CHOICES = 40  # nested choices that share a stack


@dataclass(slots=True)
class Qualifier:
    """One step into a value: by a constant key, or by one that `index` finds.

    A `strict` one fails on a value without parts even where it only asks what is there.
    """

    offset: int
    key: object = None
    index: Run | None = None
    optional: bool = False
    test: bool = False
    strict: bool = False


@dataclass(slots=True)
class QualifiedAttribute:
    """A variable, an operand or a choice of two attributes, and the steps into it.

    Exactly one of `slot`, `operand` and `branches` is set; `branches` are chosen by `operand`.
    """

    offset: int
    slot: int = -1
    operand: Run | None = None
    branches: "tuple[QualifiedAttribute, QualifiedAttribute] | None" = None
    qualifiers: list[Qualifier] = field(default_factory=list)
    test: bool = False
    depth: int = 0

    def add(self, qualifier: Qualifier) -> "QualifiedAttribute":
        """Take one step more; a choice takes it on both sides."""
        if self.branches is not None:
            self.branches[0].add(qualifier)
            self.branches[1].add(qualifier)
        else:
            self.qualifiers.append(qualifier)
        self.test = self.test or qualifier.test
        return self

    def path(self) -> tuple[str, ...] | None:
        """The keys, when this is a variable and plain string keys into it."""
        if self.slot < 0 or not self.qualifiers or self.test:
            return None
        keys = []
        for qualifier in self.qualifiers:
            if type(qualifier.key) is not str or qualifier.index or qualifier.optional:
                return None
            keys.append(qualifier.key)
        return tuple(keys)


def look(container: object, key: object) -> object:
    """What is under a key, or MISSING; a value without parts has nothing under any key."""
    if isinstance(container, CONTAINERS):
        return find(container, key)
    return MISSING


def absent(container: object, key: object) -> EvaluationError:
    """The error of a key that is not there."""
    if isinstance(container, list | tuple):
        return EvaluationError("index", f"index out of bounds: {key}")
    return EvaluationError("no_such_key", f"no such key: {key}")


def evaluate(attribute: QualifiedAttribute, limit: int) -> Run:
    """The attribute as an expression of its own: the name costs one more."""
    path = attribute.path()
    if path is not None:
        return _path(attribute, path, limit, len(path) + 1)
    if attribute.slot >= 0 and not attribute.qualifiers:
        return _variable(attribute.slot, limit)
    return _observed(attribute, limit)


def resolve(attribute: QualifiedAttribute, limit: int) -> Run:
    """The attribute as a branch or an index: only its steps cost."""
    path = attribute.path()
    if path is not None:
        return _path(attribute, path, limit, len(path))
    return _general(attribute, limit)


def _variable(slot: int, limit: int) -> Run:
    def run(frame: Frame) -> object:
        cost = frame[COST] = frame[COST] + 1
        if cost > limit:
            exceeded(frame, limit, (1,))
        value = frame[slot]
        if value is MISSING:
            raise EvaluationError("undeclared", "no such attribute")
        return value

    return run


def _observed(attribute: QualifiedAttribute, limit: int) -> Run:
    """Count the name once all steps are done, whether they succeeded or not."""
    resolved = _general(attribute, limit)
    # A presence test takes the cost of the name back; a choice has no name to count.
    own = (0 if attribute.branches else 1) - (1 if attribute.test else 0)
    offset, test = attribute.offset, attribute.test

    def run(frame: Frame) -> object:
        try:
            value = resolved(frame)
        except EvaluationError as error:
            charge(frame, limit, own)
            raise placed(error, offset) from None
        charge(frame, limit, own)
        if test and type(value) is Optional:
            return value.present
        return value

    return run if own or test else resolved


def _path(  # house: long, two closures that share their names
    attribute: QualifiedAttribute, path: tuple[str, ...], limit: int, units: int
) -> Run:
    """The fast way of the most frequent chains; what it does not find goes the exact way."""
    slow: list[Run] = []
    extra = units - len(path)
    slot, offset = attribute.slot, attribute.offset
    steps = (1,) * units

    def failed(frame: Frame) -> object:
        if not slow:
            # Made when it is first needed, which for most programs is never.
            slow.append(_general(attribute, limit))
        try:
            value = slow[0](frame)
        except EvaluationError as error:
            charge(frame, limit, extra)
            raise placed(error, offset) from None
        charge(frame, limit, extra)
        return value

    if len(path) == 3:
        return _path_of_three(slot, path, limit, steps, failed)

    def run(frame: Frame) -> object:
        value = frame[slot]
        try:
            for key in path:
                value = value[key]
        except (KeyError, TypeError):
            return failed(frame)
        cost = frame[COST] = frame[COST] + units
        if cost > limit:
            exceeded(frame, limit, steps)
        return value

    return run


def _path_of_three(
    slot: int, path: tuple[str, ...], limit: int, steps: tuple[int, ...], failed: Run
) -> Run:
    first, second, third = path
    units = len(steps)

    def run(frame: Frame) -> object:
        try:
            value = frame[slot][first][second][third]
        except (KeyError, TypeError):
            return failed(frame)
        cost = frame[COST] = frame[COST] + units
        if cost > limit:
            exceeded(frame, limit, steps)
        return value

    return run


def _general(attribute: QualifiedAttribute, limit: int) -> Run:
    """Resolve the base, then take the steps one by one."""
    base = _base(attribute, limit)
    qualifiers = attribute.qualifiers
    if attribute.branches is not None:
        return base
    first = next((i for i, q in enumerate(qualifiers) if q.optional), len(qualifiers))
    gets = [_getter(q, limit) for q in qualifiers[:first]]
    rest = [_finder(q, limit) for q in qualifiers[first:]]

    def run(frame: Frame) -> object:
        value = base(frame)
        if type(value) is Optional:
            if not value.present:
                return value
            return _optional(frame, value.value, [_finder(q, limit) for q in qualifiers])
        for get in gets:
            value = get(frame, value)
        return _optional(frame, value, rest) if rest else value

    return run


def _optional(frame: Frame, value: object, finds: Sequence[Take]) -> object:
    """Go on as long as there is something; the result is optional."""
    for find_ in finds:
        value = find_(frame, value)
        if value is MISSING:
            return NONE
    return Optional(value)


def _base(attribute: QualifiedAttribute, limit: int) -> Run:
    slot, operand = attribute.slot, attribute.operand
    if attribute.branches is None:
        return operand if operand is not None else _plain_variable(slot)
    deep = attribute.depth % CHOICES == CHOICES - 1
    choose = on_fresh_stack(_choice, attribute, limit) if deep else _choice(attribute, limit)
    return (lambda frame: on_fresh_stack(choose, frame)) if deep else choose


def _choice(attribute: QualifiedAttribute, limit: int) -> Run:
    condition, offset = attribute.operand, attribute.offset
    assert condition is not None  # noqa: S101  # see Attribute
    assert attribute.branches is not None  # noqa: S101  # see Attribute
    truthy, falsy = resolve(attribute.branches[0], limit), resolve(attribute.branches[1], limit)

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


def _key(qualifier: Qualifier) -> Run | None:
    """What finds the key."""
    if qualifier.index is None:
        return None
    index = qualifier.index

    def run(frame: Frame) -> object:
        key = index(frame)
        if not isinstance(key, KEYS):
            raise EvaluationError("no_such_overload", "invalid qualifier type")
        return key

    return run


def _getter(qualifier: Qualifier, limit: int) -> Take:
    """A step that must find something; it costs one in any case."""
    constant, dynamic, test, offset = (
        qualifier.key,
        _key(qualifier),
        qualifier.test,
        qualifier.offset,
    )
    strict = qualifier.strict

    def get(frame: Frame, container: object) -> object:
        try:
            key = constant if dynamic is None else dynamic(frame)
            value = look(container, key)
            if value is MISSING and (not test or (strict and not isinstance(container, ASKED))):
                raise absent(container, key)
        except EvaluationError as error:
            charge(frame, limit, 1)
            raise placed(error, offset) from None
        charge(frame, limit, 1)
        return value is not MISSING if test else value

    return get


def _finder(qualifier: Qualifier, limit: int) -> Take:
    """A step that may find nothing; it costs one only if it finds something."""
    constant, dynamic, strict = qualifier.key, _key(qualifier), qualifier.strict

    def find_(frame: Frame, container: object) -> object:
        key = constant if dynamic is None else dynamic(frame)
        value = look(container, key)
        if value is not MISSING:
            charge(frame, limit, 1)
        elif strict and not isinstance(container, ASKED):
            raise absent(container, key)
        return value

    return find_
