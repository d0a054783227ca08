"""Expands macros to the trees that they stand for.

The trees equal those of cel-go node by node, because they determine the cost. The environment
selects the macros.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from drawbridge.cel.ast import (
    Call,
    CelNode,
    Comprehension,
    Constant,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    copy_tree,
)

ACCUMULATOR = "@result"
UNUSED = "#unused"
_NODES = 20_000
# The name of the accumulator in older versions, still refused as the name of a variable.
_FORMER = "__result__"


class MacroError(Exception):
    """The arguments of a macro are invalid; `offset` is the position."""

    def __init__(self, node: CelNode, message: str) -> None:
        super().__init__(message)
        self.offset = node.offset


class Builder(msgspec.Struct, eq=False):
    """Creates nodes at the position of the macro call."""

    new_id: Callable[[], int]
    offset: int

    def literal(self, value: Constant) -> Literal:
        """Create a constant."""
        return Literal(self.new_id(), self.offset, value)

    def ident(self, name: str) -> Ident:
        """Create an identifier."""
        return Ident(self.new_id(), self.offset, name)

    def accumulator(self) -> Ident:
        """Create the identifier of the accumulator."""
        return self.ident(ACCUMULATOR)

    def call(self, function: str, *args: CelNode, target: CelNode | None = None) -> Call:
        """Create a call."""
        return Call(self.new_id(), self.offset, function, target, args)

    def list(self, *elements: CelNode) -> ListLiteral:
        """Create a list literal."""
        return ListLiteral(self.new_id(), self.offset, elements)

    def fold(  # noqa: PLR0913, PLR0917  # a fold has that many parts
        self,
        over: CelNode,
        variables: tuple[str, str | None],
        initial: CelNode,
        condition: CelNode,
        step: CelNode,
        result: CelNode,
        accumulator: str = ACCUMULATOR,
    ) -> Comprehension:
        """Create a comprehension."""
        return Comprehension(
            self.new_id(), self.offset, over, *variables, accumulator,
            initial, condition, step, result,
        )  # fmt: skip

    def bind(self, name: str, value: CelNode, body: CelNode) -> Comprehension:
        """Bind `name` to `value` in `body`: a fold over an empty list."""
        return self.fold(
            self.list(),
            (UNUSED, None),
            value,
            self.literal(value=False),
            self.ident(name),
            body,
            name,
        )


Macro = Callable[[Builder, CelNode | None, Sequence[CelNode]], CelNode | None]
Macros = Mapping[tuple[str, int, bool], Macro]


def _variable(node: CelNode, message: str = "argument must be a simple name") -> str:
    if not isinstance(node, Ident):
        raise MacroError(node, message)
    return node.name


def _unreserved(name: str, node: CelNode) -> None:
    if name in {ACCUMULATOR, _FORMER}:
        raise MacroError(node, "iteration variable overwrites accumulator variable")


def _variables(args: Sequence[CelNode], simple: str) -> tuple[str, str | None]:
    """Return the one or two variable names; the last argument of a macro is its body."""
    first = _variable(args[0], simple)
    if len(args) == 1:
        _unreserved(first, args[0])
        return first, None
    second = _variable(args[1], simple)
    if first == second:
        raise MacroError(args[1], f"duplicate variable name: {first}")
    _unreserved(first, args[0])
    _unreserved(second, args[1])
    return first, second


def _target(target: CelNode | None) -> CelNode:
    if target is None:
        raise TypeError("a member macro is only called with a target")
    return target


def _has(build: Builder, _target: CelNode | None, args: Sequence[CelNode]) -> CelNode:
    operand = args[0]
    if not isinstance(operand, Select):
        raise MacroError(operand, "invalid argument to has() macro: it must select a field")
    return Select(build.new_id(), build.offset, operand.operand, operand.field, test=True)


def _all(build: Builder, target: CelNode | None, args: Sequence[CelNode]) -> CelNode:
    variables = _variables(args[:-1], "argument must be a simple name")
    return build.fold(
        _target(target),
        variables,
        build.literal(value=True),
        build.call("@not_strictly_false", build.accumulator()),
        build.call("_&&_", build.accumulator(), args[-1]),
        build.accumulator(),
    )


def _exists(build: Builder, target: CelNode | None, args: Sequence[CelNode]) -> CelNode:
    variables = _variables(args[:-1], "argument must be a simple name")
    return build.fold(
        _target(target),
        variables,
        build.literal(value=False),
        build.call("@not_strictly_false", build.call("!_", build.accumulator())),
        build.call("_||_", build.accumulator(), args[-1]),
        build.accumulator(),
    )


def _exists_one(build: Builder, target: CelNode | None, args: Sequence[CelNode]) -> CelNode:
    variables = _variables(args[:-1], "argument must be a simple name")
    counted = build.call("_+_", build.accumulator(), build.literal(1))
    return build.fold(
        _target(target),
        variables,
        build.literal(0),
        build.literal(value=True),
        build.call("_?_:_", args[-1], counted, build.accumulator()),
        build.call("_==_", build.accumulator(), build.literal(1)),
    )


def _collect(  # noqa: PLR0913, PLR0917  # the differences of the collecting macros
    build: Builder,
    target: CelNode | None,
    args: Sequence[CelNode],
    step: CelNode,
    initial: CelNode,
    names: int = 2,
) -> CelNode:
    """Create a fold that adds to a collection, only where an argument before the last is true."""
    simple = "argument is not an identifier" if names == 1 else "argument must be a simple name"
    variables = _variables(args[:names], simple)
    if len(args) == names + 2:
        step = build.call("_?_:_", args[names], step, build.accumulator())
    return build.fold(
        _target(target), variables, initial, build.literal(value=True), step, build.accumulator()
    )


def _map(
    build: Builder, target: CelNode | None, args: Sequence[CelNode], names: int = 1
) -> CelNode:
    step = build.call("_+_", build.accumulator(), build.list(args[-1]))
    return _collect(build, target, args, step, build.list(), names)


def _filter(build: Builder, target: CelNode | None, args: Sequence[CelNode]) -> CelNode:
    return _map(build, target, (*args, args[0]))


_transform_list = partial(_map, names=2)


def _transform_map(
    build: Builder, target: CelNode | None, args: Sequence[CelNode], *, keyed: bool = True
) -> CelNode:
    entry = (build.ident(_variable(args[0])), args[-1]) if keyed else args[-1:]
    step = build.call("cel.@mapInsert", build.accumulator(), *entry)
    return _collect(build, target, args, step, MapLiteral(build.new_id(), build.offset, ()))


_transform_map_entry = partial(_transform_map, keyed=False)


def _bind(build: Builder, target: CelNode | None, args: Sequence[CelNode]) -> CelNode | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    name = _variable(args[0], "cel.bind() variable names must be simple identifiers")
    return build.bind(name, args[1], args[2])


def _opt_map(build: Builder, target: CelNode | None, args: Sequence[CelNode]) -> CelNode:
    name = _variable(args[0], "optMap() variable name must be a simple identifier")
    return _if_value(
        build,
        _target(target),
        lambda value: build.call("optional.of", build.bind(name, value, args[1])),
    )


def _opt_flat_map(build: Builder, target: CelNode | None, args: Sequence[CelNode]) -> CelNode:
    name = _variable(args[0], "optFlatMap() variable name must be a simple identifier")
    return _if_value(build, _target(target), lambda value: build.bind(name, value, args[1]))


def _if_value(build: Builder, target: CelNode, then: Callable[[CelNode], CelNode]) -> CelNode:
    """Apply `then` to the value of an optional if it has one.

    The expansion contains the target twice, so a chain of these macros doubles with each link.
    cel-go does not limit the memory of such a chain.
    """
    if build.new_id() > _NODES:
        raise MacroError(
            target,
            f"the macros make more than {_NODES} parts of the expression, the most for Drawbridge",
        )
    value = build.call("value", target=copy_tree(target, build.new_id))
    return build.call(
        "_?_:_",
        build.call("hasValue", target=target),
        then(value),
        build.call("optional.none"),
    )


_SORTED = "@__sortBy_input__"


def _sort_by(build: Builder, target: CelNode | None, args: Sequence[CelNode]) -> CelNode:
    target = _target(target)
    if not isinstance(target, ListLiteral | Select | Ident | Comprehension | Call):
        raise MacroError(
            target,
            "sortBy can only be applied to a list, identifier, comprehension, call or select",
        )
    keys = _map(build, build.ident(_SORTED), args)
    call = build.call("@sortByAssociatedKeys", keys, target=build.ident(_SORTED))
    return build.bind(_SORTED, target, call)


MACROS: Macros = {
    ("bind", 3, True): _bind,
    ("has", 1, False): _has,
    ("all", 2, True): _all,
    ("exists", 2, True): _exists,
    ("exists_one", 2, True): _exists_one,
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
    # With two variables.
    ("all", 3, True): _all,
    ("exists", 3, True): _exists,
    ("existsOne", 3, True): _exists_one,
    ("exists_one", 3, True): _exists_one,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
}
# The only macro that not every environment of Kubernetes has.
SORT_BY: Macros = {("sortBy", 2, True): _sort_by}
