"""What names mean: the declarations of an environment, and the variables of macros inside it.

Knows no trees and no positions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cel import wellknown
from cel.declare import Function, Library, Overload
from cel.types import DURATION, TIMESTAMP, Type, type_of
from cel.unify import STRICT


class ResolvedName(NamedTuple):
    """What a name means: the value of the type `type`, or without one the variable `name`.

    A name with a leading dot is that of the environment's variable where a macro's variable of
    the same name hides it.
    """

    name: str
    type: Type | None


class Signature(NamedTuple):
    """An overload, the type parameters that it has, and the kinds of what it takes.

    A kind is empty where types of other kinds may fit as well.
    """

    overload: Overload
    parameters: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Declarations:
    """All that an expression may refer to.

    `types` maps an identifier to the type it stands for; `objects` a type's name to its fields.
    `container` is the package in which names are looked up first. `local_first`, the rule of
    cel-go since 0.27: a macro's variable comes before a longer name that begins like it, and a
    leading dot passes over it.
    """

    variables: Mapping[str, Type]
    functions: Mapping[str, Function]
    types: Mapping[str, Type]
    objects: Mapping[str, Mapping[str, Type]]
    container: str = ""
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

    def candidates(self, name: str) -> tuple[str, ...]:
        """The full names that `name` may stand for, the first that exists counts."""
        if name.startswith("."):
            return (name[1:],)
        if not self.container:
            return (name,)
        parts = self.container.split(".")
        prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        return (*(f"{prefix}.{name}" for prefix in prefixes), name)

    def function(self, name: str) -> Function | None:
        """The function that `name` means here."""
        found = self.functions.get(name)
        if found is None or self.container:
            for candidate in self.candidates(name):
                found = self.functions.get(candidate)
                if found is not None:
                    return found
        return found

    def may_qualify(self, root: str) -> bool:
        """Whether a name that begins with the identifier `root` may have more than one part."""
        return root in self.roots or root.startswith(".") or bool(self.container)


def declare(  # an environment is that many choices
    libraries: Iterable[Library],
    variables: Mapping[str, Type],
    objects: Mapping[str, Mapping[str, Type]],
    *,
    container: str = "",
    local_first: bool = False,
) -> Declarations:
    """The declarations of `libraries`; a later one adds overloads to an earlier one's function.

    The names of the objects' types stand for those types, and so, where there are objects, do
    `timestamp` and `duration`: a quirk of Kubernetes, in which these are no values all the same.
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
    return Declarations(variables, functions, types, objects, container, local_first)


def _merged(one: Function | None, two: Function) -> Function:
    if one is None:
        return two
    overloads = {overload.id: overload for overload in (*one.overloads, *two.overloads)}
    return Function(
        one.name, tuple(overloads.values()), one.cost or two.cost, one.estimate or two.estimate
    )


def _signatures(
    functions: Iterable[Function],
) -> dict[tuple[str, bool, int], tuple[Signature, ...]]:
    found: dict[tuple[str, bool, int], tuple[Signature, ...]] = {}
    for function in functions:
        for overload in function.overloads:
            key = (function.name, overload.member, len(overload.params))
            names = dict.fromkeys(_parameters((*overload.params, overload.result)))
            kinds = tuple(type_.kind if type_.kind in STRICT else "" for type_ in overload.params)
            found[key] = (*found.get(key, ()), Signature(overload, tuple(names), kinds))
    return found


def _parameters(types: Iterable[Type]) -> Iterable[str]:
    for each in types:
        if each.kind == "param":
            yield each.name
        yield from _parameters(each.params)


class VariableScope:
    """The variables of the macros around a place, innermost first, over the declarations."""

    __slots__ = ("declarations", "local")

    def __init__(self, declarations: Declarations, local: Mapping[str, Type]) -> None:
        self.declarations = declarations
        self.local = local

    def within(self, variables: Mapping[str, Type]) -> "VariableScope":
        """The scope inside, with more variables."""
        return VariableScope(self.declarations, {**self.local, **variables})

    def find(self, name: str) -> tuple[ResolvedName, Type] | None:
        """What an identifier means and of which type that is."""
        declarations, local = self.declarations, self.local
        if not local and name in declarations.names and not declarations.container:
            return declarations.names[name]
        hidden = declarations.local_first and name.removeprefix(".") in local
        if hidden and not name.startswith("."):
            return ResolvedName(name, None), local[name]
        for candidate in declarations.candidates(name):
            if candidate in local and not declarations.local_first:
                return ResolvedName(candidate, None), local[candidate]
            found = declarations.names.get(candidate)
            if found is not None:
                return (ResolvedName(f".{candidate}", found[0].type), found[1]) if hidden else found
        return None

    def find_qualified(self, root: str, name: str) -> tuple[ResolvedName, Type] | None:
        """What a name of several parts means, `root` its first part."""
        if self.declarations.local_first and root in self.local:
            return None
        declarations = self.declarations
        for candidate in declarations.candidates(name):
            found = declarations.names.get(candidate)
            if found is not None:
                return found
        return None
