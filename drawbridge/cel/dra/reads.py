"""Finds the parts of a device that an expression reads, without evaluating it.

Callers evaluate once per distinct projection of a device, and check reports attributes that an
expression requires. Follows constant keys and `cel.bind`. If a key is computed or a map is used as
a value, the expression reads the whole map.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from drawbridge.cel.ast import (
    Call,
    CelNode,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    Select,
    children,
)
from drawbridge.cel.environment import Program
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.semver import Semver
from drawbridge.cel.values import MISSING, CelValue, Quantity

VARIABLE = "device"
# Deeper paths are parts of attribute values, not names.
DEPTH = {"attributes": 3, "capacity": 3, "driver": 1, "allowMultipleAllocations": 1}
NESTING = 200

DevicePath = tuple[str, ...]
PresentPaths = frozenset[DevicePath]
NOTHING: PresentPaths = frozenset()


class AttributeAccess(msgspec.Struct, frozen=True, order=True):
    """One path that is read: `("attributes", domain, identifier)`, or less for a map.

    If `guarded`, the expression handles a missing value: it tests for it or reads it as an
    optional. If `presence`, the expression only tests whether it exists.
    """

    path: tuple[str, ...]
    guarded: bool = False
    presence: bool = False


class Reads(msgspec.Struct, frozen=True):
    """All paths that an expression reads, each once and in order."""

    accesses: tuple[AttributeAccess, ...]

    def attributes(self) -> frozenset[tuple[str, str]]:
        """Return the attributes that are read by name, as domain and identifier."""
        return self._named("attributes")

    def capacities(self) -> frozenset[tuple[str, str]]:
        """Return the capacities that are read by name, as domain and identifier."""
        return self._named("capacity")

    def required(self) -> frozenset[DevicePath]:
        """Return the names that are read unguarded: the expression may fail without them."""
        return frozenset(a.path for a in self.accesses if len(a.path) == 3 and not a.guarded)

    def reads_whole_map(self) -> bool:
        """Tell whether a whole map, or the whole device, is read."""
        return any(
            len(access.path) < DEPTH.get(access.path[0], 1) if access.path else True
            for access in self.accesses
            if not access.presence
        )

    def projection(self, device: Mapping[str, CelValue]) -> Hashable:
        """Return the parts of a device that determine the result of the expression.

        The device is a result of `drawbridge.cel.dra.device_variables`. Two devices with equal
        projections have the same result or the same error.
        """
        seen = device[VARIABLE]
        if isinstance(seen, EvaluationError):
            return (seen.kind, seen.message)
        return tuple(key_of_value(_read_access(seen, each)) for each in self.accesses)

    def _named(self, field: str) -> frozenset[tuple[str, str]]:
        named = (a.path for a in self.accesses if len(a.path) == 3 and a.path[0] == field)
        return frozenset((path[1], path[2]) for path in named)


def find_reads(program: Program) -> Reads:
    """Return all reads of a program."""
    accesses: dict[DevicePath, AttributeAccess] = {}
    for path, guarded, presence in _accesses(program.checked.node):
        access = accesses.get(path)
        if access is None or (access.presence and not presence):
            # A read of the value depends on its presence, too.
            accesses[path] = AttributeAccess(path, guarded, presence)
        elif access.presence == presence:
            # A path that is read twice is guarded only if both reads are.
            accesses[path] = AttributeAccess(path, access.guarded and guarded, presence)
    return Reads(tuple(sorted(accesses.values())))


class _Place(NamedTuple):
    """A node, the paths that exist when it is evaluated, and the meaning of its names."""

    node: CelNode
    present: PresentPaths
    names: Mapping[str, DevicePath | None]


class _Chain(NamedTuple):
    """A path into the device, and whether one of its steps is optional."""

    path: DevicePath
    optional: bool


def _accesses(root: CelNode) -> Iterator[tuple[DevicePath, bool, bool]]:
    pending = [_Place(root, NOTHING, {VARIABLE: ()})]
    while pending:
        place = pending.pop()
        node, present, names = place
        chain = _chain(node, names)
        if chain is not None:
            yield _access(node, chain, present)
        elif isinstance(node, Call):
            member = _membership(node, names)
            if member is not None:
                yield member, True, True
            else:
                pending += _operands(node, present, names)
        elif isinstance(node, Comprehension):
            pending += _comprehension_places(node, present, names)
        else:
            pending += [_Place(child, present, names) for child in children(node)]


def _access(node: CelNode, chain: _Chain, present: PresentPaths) -> tuple[DevicePath, bool, bool]:
    path = chain.path[: DEPTH.get(chain.path[0], 1)] if chain.path else ()
    tested = isinstance(node, Select) and node.test and len(chain.path) <= len(path)
    return path, tested or chain.optional or path in present, tested


def _chain(node: CelNode, names: Mapping[str, DevicePath | None]) -> _Chain | None:
    """Return the path that a node spells, or None."""
    keys: list[str] = []
    optional = False
    while not isinstance(node, Ident):
        step = _step(node)
        if step is None:
            return None
        node, key, asks = step
        keys.append(key)
        optional = optional or asks
    base = names.get(node.name.removeprefix("."))
    return None if base is None else _Chain((*base, *reversed(keys)), optional)


def _step(node: CelNode) -> tuple[CelNode, str, bool] | None:
    if isinstance(node, Select):
        return node.operand, node.field, False
    if isinstance(node, Call) and node.function in ("_[_]", "_[?_]", "_?._"):
        key = node.args[1]
        if isinstance(key, Literal) and isinstance(key.value, str):
            return node.args[0], key.value, node.function != "_[_]"
    return None


def _membership(node: Call, names: Mapping[str, DevicePath | None]) -> DevicePath | None:
    """Return the path that `"key" in device.attributes` tests."""
    if node.function != "@in":
        return None
    key, container = node.args
    chain = _chain(container, names)
    if chain is None or not isinstance(key, Literal) or not isinstance(key.value, str):
        return None
    path = (*chain.path, key.value)
    return path if len(path) in (2, 3) and path[0] in ("attributes", "capacity") else None


def _operands(
    node: Call, present: PresentPaths, names: Mapping[str, DevicePath | None]
) -> Iterator[_Place]:
    """Return the operands of a call, each with the paths that the others imply."""
    if node.function in ("_&&_", "_||_"):
        # If one operand decides, an error in the other is absorbed, whichever comes first.
        truth = node.function == "_&&_"
        left, right = node.args
        yield _Place(left, present | _implied(right, names, truth=truth), names)
        yield _Place(right, present | _implied(left, names, truth=truth), names)
    elif node.function == "_?_:_":
        condition, truthy, falsy = node.args
        yield _Place(condition, present, names)
        yield _Place(truthy, present | _implied(condition, names, truth=True), names)
        yield _Place(falsy, present | _implied(condition, names, truth=False), names)
    else:
        for child in children(node):
            yield _Place(child, present, names)


def _comprehension_places(
    node: Comprehension, present: PresentPaths, names: Mapping[str, DevicePath | None]
) -> Iterator[_Place]:
    hidden: dict[str, DevicePath | None] = dict.fromkeys(
        (node.variable, node.second_variable or node.variable, node.accumulator)
    )
    bound = isinstance(node.range, ListLiteral) and not node.range.elements
    chain = _chain(node.initial, names)
    if bound and chain is not None and not chain.optional:
        # cel.bind of a part of the device: reads go through the bound name.
        yield _Place(node.result, present, {**names, node.accumulator: chain.path})
        if len(chain.path) >= DEPTH.get(chain.path[0] if chain.path else "", 1):
            yield _Place(node.initial, present, names)
        return
    yield _Place(node.range, present, names)
    yield _Place(node.initial, present, names)
    for part in (node.condition, node.step):
        yield _Place(part, present, {**names, **hidden})
    yield _Place(node.result, present, {**names, node.accumulator: None})


def _implied(
    node: CelNode, names: Mapping[str, DevicePath | None], *, truth: bool, depth: int = 0
) -> PresentPaths:
    """Return the paths that certainly exist if `node` evaluates to `truth`."""
    if depth > NESTING:
        return NOTHING
    if isinstance(node, Select) and node.test:
        chain = _chain(node, names)
        return frozenset({chain.path}) if chain is not None and truth else NOTHING
    if not isinstance(node, Call):
        return NOTHING
    if node.function == "!_":
        return _implied(node.args[0], names, truth=not truth, depth=depth + 1)
    if node.function in ("_&&_", "_||_"):
        left, right = (_implied(arg, names, truth=truth, depth=depth + 1) for arg in node.args)
        return left | right if truth is (node.function == "_&&_") else left & right
    member = _membership(node, names)
    return frozenset({member}) if member is not None and truth else NOTHING


def _read_access(seen: object, access: AttributeAccess) -> object:
    """Return the value of an access in a device; for a presence test, only whether it exists."""
    value = seen
    for key in access.path:
        if access.presence and not (isinstance(value, dict) and key in value):
            return False
        # A missing domain is empty; its absence is visible only to a presence test.
        value = value.get(key, MISSING) if isinstance(value, dict) else MISSING
    return True if access.presence else value


def key_of_value(value: object) -> Hashable:
    """Return a hashable that is equal only for equal values of the same type and representation."""
    if isinstance(value, str) or value is MISSING:
        return value
    if isinstance(value, list | tuple):
        return ("list", *(key_of_value(each) for each in value))
    if isinstance(value, dict):
        return ("map", *((name, key_of_value(each)) for name, each in value.items()))
    if isinstance(value, Quantity):
        return ("quantity", value.mantissa, value.scale, value.format, value.decimal)
    if isinstance(value, Semver):
        return ("semver", str(value))
    return (type(value).__name__, value)
