"""Resolves names: the declarations of an environment and the variables of macros."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from drawbridge.cel import wellknown
from drawbridge.cel.declare import Function, Library, Overload
from drawbridge.cel.types import DURATION, TIMESTAMP, Type, type_of
from drawbridge.cel.unify import STRICT


class ResolvedName(NamedTuple):
    """A resolved name: the type value of `type`, or the variable `name` if that is None.

    A leading dot refers to the environment's variable if a macro's variable of the same name hides
    it.
    """

    name: str
    type: Type | None


class Signature(NamedTuple):
    """An overload, its type parameters, and the kinds of its parameters.

    A kind is empty if other kinds may fit, too.
    """

    overload: Overload
    parameters: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Declarations:
    """All names that an expression may refer to.

    `types` maps an identifier to its type, and `objects` a type name to its fields. `local_first`
    is the rule of cel-go since 0.27: a macro's variable hides a longer name with the same first
    part, and a leading dot skips it.
    """

    variables: Mapping[str, Type]
    functions: Mapping[str, Function]
    types: Mapping[str, Type]
    objects: Mapping[str, Mapping[str, Type]]
    local_first: bool = False
    signatures: Mapping[tuple[str, bool, int], tuple[Signature, ...]] = field(init=False)
    roots: frozenset[str] = field(init=False)
    names: Mapping[str, tuple[ResolvedName, Type]] = field(init=False)

    def __post_init__(self) -> None:
        names = {
            name: (ResolvedName(name, type_), type_of(type_)) for name, type_ in self.types.items()
        }
        names.update(
            {name: (ResolvedName(name, None), type_) for name, type_ in self.variables.items()}
        )
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "signatures", _signatures(self.functions.values()))
        dotted = (name for name in (*names, *self.functions) if "." in name)
        roots = frozenset(name.partition(".")[0] for name in dotted)
        object.__setattr__(self, "roots", roots)

    def function(self, name: str) -> Function | None:
        """Return the function that `name` refers to."""
        return self.functions.get(name.removeprefix("."))

    def may_qualify(self, root: str) -> bool:
        """Tell whether a name that starts with the identifier `root` can be qualified."""
        return root in self.roots or root.startswith(".")


def declare(
    libraries: Iterable[Library],
    variables: Mapping[str, Type],
    objects: Mapping[str, Mapping[str, Type]],
    *,
    local_first: bool = False,
) -> Declarations:
    """Return the declarations of `libraries`; later libraries add overloads to functions.

    The names of object types refer to those types. If there are objects, so do `timestamp` and
    `duration`, as in Kubernetes, where they are nevertheless not values.
    """
    functions: dict[str, Function] = {}
    types = dict(wellknown.TYPES)
    if objects:
        types.update({"timestamp": TIMESTAMP, "duration": DURATION})
        types.update({name: Type("object", name) for name in objects})
    objects = {**wellknown.FIELDS, **objects}
    for library in libraries:
        types.update(library.types)
        for function in library.functions:
            functions[function.name] = _merged(functions.get(function.name), function)
    return Declarations(variables, functions, types, objects, local_first)


def _merged(before: Function | None, added: Function) -> Function:
    if before is None:
        return added
    overloads = {overload.id: overload for overload in (*before.overloads, *added.overloads)}
    return Function(
        before.name,
        tuple(overloads.values()),
        before.cost or added.cost,
        before.estimate or added.estimate,
    )


def _signatures(
    functions: Iterable[Function],
) -> dict[tuple[str, bool, int], tuple[Signature, ...]]:
    signatures: dict[tuple[str, bool, int], tuple[Signature, ...]] = {}
    for function in functions:
        for overload in function.overloads:
            key = (function.name, overload.member, len(overload.params))
            names = dict.fromkeys(_parameters((*overload.params, overload.result)))
            kinds = tuple(type_.kind if type_.kind in STRICT else "" for type_ in overload.params)
            signatures[key] = (*signatures.get(key, ()), Signature(overload, tuple(names), kinds))
    return signatures


def _parameters(types: Iterable[Type]) -> Iterable[str]:
    for type_name in types:
        if type_name.kind == "param":
            yield type_name.name
        yield from _parameters(type_name.params)


class VariableScope:
    """The variables of enclosing macros, innermost first, and the declarations."""

    __slots__ = ("declarations", "local")

    def __init__(self, declarations: Declarations, local: Mapping[str, Type]) -> None:
        self.declarations = declarations
        self.local = local

    def within(self, variables: Mapping[str, Type]) -> "VariableScope":
        """Return the inner scope with additional variables."""
        return VariableScope(self.declarations, {**self.local, **variables})

    def find(self, name: str) -> tuple[ResolvedName, Type] | None:
        """Return the resolution and the type of an identifier."""
        declarations, local = self.declarations, self.local
        plain = name.removeprefix(".")
        if plain in local and (plain == name or not declarations.local_first):
            return ResolvedName(plain, None), local[plain]
        entry = declarations.names.get(plain)
        if entry is not None and plain in local:
            return ResolvedName(name, entry[0].type), entry[1]
        return entry

    def find_qualified(self, root: str, name: str) -> tuple[ResolvedName, Type] | None:
        """Return the resolution of a qualified name whose first part is `root`."""
        if self.declarations.local_first and root in self.local:
            return None
        return self.declarations.names.get(name.removeprefix("."))
