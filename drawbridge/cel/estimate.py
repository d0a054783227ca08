"""Estimates the maximum cost of an evaluation before any value is known.

The result equals that of cel-go's cost estimator, including its omissions, because the API server
refuses an expression by this number. Sizes come from literals, from the functions' estimates, and
from the declared sizes of the variables.
"""

from collections.abc import Callable

import msgspec

from drawbridge.cel import ast
from drawbridge.cel.checker import Checked
from drawbridge.cel.declare import (
    ANY_SIZE,
    UNBOUNDED,
    Function,
    Operand,
    Overload,
    Range,
)
from drawbridge.cel.frame import LIST_COST, MAP_COST, MESSAGE_COST
from drawbridge.cel.fresh_stack import DEPTH, on_fresh_stack
from drawbridge.cel.library.costs import ONE
from drawbridge.cel.types import ERROR, Type

FieldPath = tuple[str, ...]
Sizes = Callable[[FieldPath], Range | None]

SCALARS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
SELECTABLE = frozenset({"map", "object", "param", "wrapper"})
ACCUMULATORS = frozenset({"__result__", "@result"})
# Only their arguments cost.
FREE = frozenset({"conditional", "logical_and", "logical_or"})
ADDITIONS = frozenset({"add_string", "add_bytes", "add_list"})


def union(a: Range, b: Range) -> Range:
    """Return the smallest range that contains both."""
    return Range(min(a.min, b.min), max(a.max, b.max))


class EntrySizes(msgspec.Struct, frozen=True):
    """The sizes of the keys and values of a list or a map."""

    kind: str
    key: Range
    value: Range


class PathSlice:
    """The names from a variable to a value, as a slice of Go.

    cel-go appends to the path of a map twice, for its keys and for its values. If the array of the
    path has room, the second name replaces the first one: keys have the sizes of values then.
    """

    __slots__ = ("_array", "_length")

    def __init__(self, array: list[str], length: int) -> None:
        self._array = array
        self._length = length

    def names(self) -> FieldPath:
        """Return the names that are in the path now."""
        return tuple(self._array[: self._length])

    def append(self, name: str) -> "PathSlice":
        """Return a path with one more name; it shares the array, unless that is full."""
        length = self._length
        # Go doubles a full array, so each has a power of two of places.
        array = self._array if length & (length - 1) else self._array[:length]
        array[length : length + 1] = [name]
        return PathSlice(array, length + 1)


NO_PATH = PathSlice([], 0)


class LocalSize(msgspec.Struct, frozen=True):
    """A comprehension variable: the path of its values and their size."""

    path: PathSlice
    size: Range | None
    entries: EntrySizes | None


class Estimator:
    """One estimation; `cost` returns the greatest cost of the whole tree."""

    def __init__(self, checked: Checked, sizes: Sizes) -> None:
        self.checked = checked
        self.sizes = sizes
        self.paths: dict[int, PathSlice] = {}
        self.locals: dict[str, list[LocalSize]] = {}
        self.computed: dict[int, Range] = {}
        self.entries: dict[int, EntrySizes] = {}
        self.depth = 0

    def cost(self, node: ast.CelNode) -> int:
        """Return the greatest cost of `node`, including its operands."""
        self.depth += 1
        try:
            if self.depth % DEPTH == 0:
                return on_fresh_stack(_COSTS[type(node)], self, node)
            return _COSTS[type(node)](self, node)
        finally:
            self.depth -= 1

    def literal(self, node: ast.Literal) -> int:
        """A constant is free."""
        del node
        return 0

    def ident(self, node: ast.Ident) -> int:
        """An identifier costs 1."""
        local = self.local(node.name)
        self.paths[node.id] = local.path if local else NO_PATH.append(node.name)
        return 1

    def select(self, node: ast.Select) -> int:
        """A field costs 1 if it is known to be a field; a presence test is free."""
        operand = self.cost(node.operand)
        if node.test:
            return operand
        self.paths[node.id] = self.path(node.operand).append(node.field)
        return operand + (self.type(node.operand).kind in SELECTABLE)

    def list_literal(self, node: ast.ListLiteral) -> int:
        """A list costs 10 plus its elements."""
        total = LIST_COST
        size = Range(UNBOUNDED if node.elements else 0, 0)
        for element in node.elements:
            total += self.cost(element)
            size = union(size, self.size_or_any(element))
        self.computed[node.id] = Range(len(node.elements), len(node.elements))
        self.entries[node.id] = EntrySizes("list", ONE, size)
        return total

    def map_literal(self, node: ast.MapLiteral) -> int:
        """A map costs 30 plus its entries."""
        total = MAP_COST
        key = value = Range(UNBOUNDED if node.entries else 0, 0)
        for entry in node.entries:
            assert not isinstance(entry.key, str)  # noqa: S101  # only messages have names for keys
            total += self.cost(entry.key) + self.cost(entry.value)
            key = union(key, self.size_or_any(entry.key))
            value = union(value, self.size_or_any(entry.value))
        self.computed[node.id] = Range(len(node.entries), len(node.entries))
        self.entries[node.id] = EntrySizes("map", key, value)
        return total

    def message(self, node: ast.MessageLiteral) -> int:
        """A message costs 40 plus its fields."""
        return MESSAGE_COST + sum(self.cost(entry.value) for entry in node.entries)

    def comprehension(self, node: ast.Comprehension) -> int:
        """Each element of the range may cost a condition and a step."""
        if _is_bind(node):
            return self.bind(node)
        total = self.cost(node.range) + self.cost(node.initial)
        self.push(node.accumulator, node.initial)
        self.push_iteration(node)
        loop = self.cost(node.condition) + self.cost(node.step)
        self.locals[node.variable].pop()
        if node.second_variable:
            self.locals[node.second_variable].pop()
        total += self.cost(node.result)
        self.locals[node.accumulator].pop()
        count = self.size_or_any(node.range)
        if isinstance(node.initial, ast.Literal):
            self.set_size(node, self.size(node.initial))
        elif isinstance(node.initial, ast.ListLiteral | ast.MapLiteral):
            self.set_size(node, count)
            self.set_entries(node, self.entries_of(node.step))
        return min(total + count.max * loop, UNBOUNDED)

    def bind(self, node: ast.Comprehension) -> int:
        """In `cel.bind`, the bound value counts once."""
        total = self.cost(node.range) + self.cost(node.initial)
        self.push(node.accumulator, node.initial)
        total += self.cost(node.result)
        self.locals[node.accumulator].pop()
        self.set_size(node, self.size(node.result))
        self.set_entries(node, self.entries_of(node.result))
        return total

    def call(self, node: ast.Call) -> int:
        """A call costs its arguments plus the most of its overloads."""
        if node.function == "dyn":
            argument = node.args[0]
            cost = self.cost(argument)
            self.set_size(node, self.size(argument))
            self.set_entries(node, self.entries_of(argument))
            return cost + 1
        resolved = self.checked.calls[node.id]
        total = sum(costs := [self.cost(argument) for argument in node.args])
        arguments = node.args
        if node.target is not None and not resolved.namespaced:
            total += self.cost(node.target)
            arguments = (node.target, *arguments)
        most = 0
        result: Range | None = None
        for overload in resolved.overloads:
            cost, size = self.overload(node, resolved.function, overload, arguments)
            most = max(most, cost)
            if size is not None:
                result = size if result is None else union(result, size)
            result = self.indexed(node, overload.id, result)
            if result is None:
                result = self.size(node)
        self.set_size(node, result)
        if node.function == "_?_:_":  # one of the branches counts
            total -= min(costs[1:])
        return total + most

    def indexed(self, node: ast.Call, overload: str, result: Range | None) -> Range | None:
        """Return the size of an indexed element; other calls do not change the size."""
        step = {"index_list": "@items", "index_map": "@values"}.get(overload)
        if step is None:
            return result
        entries = self.entries_of(node.args[0])
        self.paths[node.id] = self.path(node.args[0]).append(step)
        return entries.value if entries else None

    def overload(
        self,
        node: ast.Call,
        function: Function,
        overload: Overload,
        arguments: tuple[ast.CelNode, ...],
    ) -> tuple[int, Range | None]:
        """Return the cost of one overload without its arguments, and the size of its result."""
        if overload.id in FREE:
            return 0, self.conditional(node) if overload.id == "conditional" else None
        if overload.id in ADDITIONS:
            self.set_entries(node, _both(*map(self.entries_of, arguments)))
        own = None
        if overload.estimate is not None or function.estimate is not None:
            operands = tuple(map(self.operand, arguments))
            own = overload.estimate(operands) if overload.estimate else None
            if own is None and function.estimate is not None:
                own = function.estimate(operands)
        return (1, None) if own is None else (own.cost, own.size)

    def conditional(self, node: ast.Call) -> Range:
        """Return the size of either branch, and note that of its entries."""
        _, truthy, falsy = node.args
        self.set_entries(node, _both(self.entries_of(truthy), self.entries_of(falsy)))
        return union(self.size_or_any(truthy), self.size_or_any(falsy))

    def operand(self, node: ast.CelNode) -> Operand:
        """Return an argument as the functions' estimates read it."""
        kind = self.type(node)
        path = self.path(node).names()
        if path and path[0] in ACCUMULATORS:
            path = ()
        size = self.size(node)
        elements = self.sizes((*path, "@items")) if path and kind.params else None
        literal = node.value if isinstance(node, ast.Literal) else None
        return Operand(kind, size or ANY_SIZE, literal, elements or ANY_SIZE)

    def type(self, node: ast.CelNode) -> Type:
        """Return the type that the checker found."""
        return self.checked.types.get(node.id, ERROR)

    def local(self, name: str) -> LocalSize | None:
        """Return the innermost variable of that name."""
        stack = self.locals.get(name)
        return stack[-1] if stack else None

    def push(self, name: str, node: ast.CelNode) -> None:
        """Add an accumulator to the scope."""
        local = LocalSize(self.path(node), self.size(node), self.entries_of(node))
        self.locals.setdefault(name, []).append(local)

    def push_iteration(self, node: ast.Comprehension) -> None:
        """Add the iteration variables to the scope."""
        entries, path = self.entries_of(node.range), self.path(node.range)
        is_list = (entries.kind if entries else self.type(node.range).kind) == "list"
        key_size, value_size = (entries.key, entries.value) if entries else (None, None)
        if node.second_variable or not is_list:
            keys = LocalSize(path.append("@indices" if is_list else "@keys"), key_size, None)
            self.locals.setdefault(node.variable, []).append(keys)
        if node.second_variable or is_list:
            values = LocalSize(path.append("@items" if is_list else "@values"), value_size, None)
            self.locals.setdefault(node.second_variable or node.variable, []).append(values)

    def path(self, node: ast.CelNode) -> PathSlice:
        """Return the path of `node` in the declared variables, if it has one."""
        return self.paths.get(node.id, NO_PATH)

    def size_or_any(self, node: ast.CelNode) -> Range:
        """Return the size of `node`, or the full range."""
        return self.size(node) or ANY_SIZE

    def size(self, node: ast.CelNode) -> Range | None:
        """Return the size of the value of `node`, or None if unknown."""
        computed = self.computed.get(node.id)
        if computed is not None:
            return computed
        if isinstance(node, ast.Literal):
            length = len(node.value) if isinstance(node.value, str | bytes) else 1
            return Range(length, length)
        path = self.path(node).names()
        declared = self.sizes(path) if path else None
        if declared is not None:
            self.computed[node.id] = declared
            return declared
        if _is_scalar(self.type(node)):
            return ONE
        local = self.local(node.name) if isinstance(node, ast.Ident) else None
        return local.size if local else None

    def set_size(self, node: ast.CelNode, size: Range | None) -> None:
        """Set the size of a node."""
        if size is not None:
            self.computed[node.id] = size

    def entries_of(self, node: ast.CelNode) -> EntrySizes | None:
        """Return the sizes of the entries of `node`."""
        entries = self.entries.get(node.id)
        if entries is None and isinstance(node, ast.Ident):
            local = self.local(node.name)
            return local.entries if local else None
        return entries

    def set_entries(self, node: ast.CelNode, entries: EntrySizes | None) -> None:
        """Set the sizes of the entries of a node."""
        if entries is not None:
            self.entries[node.id] = entries


_COSTS: dict[type, Callable[..., int]] = {
    ast.Literal: Estimator.literal,
    ast.Ident: Estimator.ident,
    ast.Select: Estimator.select,
    ast.Call: Estimator.call,
    ast.ListLiteral: Estimator.list_literal,
    ast.MapLiteral: Estimator.map_literal,
    ast.MessageLiteral: Estimator.message,
    ast.Comprehension: Estimator.comprehension,
}


def _both(a: EntrySizes | None, b: EntrySizes | None) -> EntrySizes | None:
    if a is None or b is None:
        return None
    return EntrySizes(a.kind, union(a.key, b.key), union(a.value, b.value))


def _is_bind(node: ast.Comprehension) -> bool:
    return (
        isinstance(node.range, ast.ListLiteral)
        and not node.range.elements
        and isinstance(node.condition, ast.Literal)
        and node.condition.value is False
        and node.accumulator != "__result__"
    )


def _is_scalar(kind: Type) -> bool:
    if kind.kind == "opaque" and kind.name == "optional_type":
        return _is_scalar(kind.params[0])
    return kind.kind in SCALARS
