"""The CEL types, as the checker compares them and errors display them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Type:
    """A type: `kind` is its sort, `name` its name, `params` its type parameters.

    Kinds: bool int uint double string bytes null timestamp duration dyn any error type list map
    opaque (name and params, such as `kubernetes.Quantity` or `optional_type`), object (name),
    wrapper (params[0] is the wrapped type), param (name; a type parameter of an overload).
    """

    kind: str
    name: str = ""
    params: "tuple[Type, ...]" = ()


BOOL = Type("bool")
INT = Type("int")
UINT = Type("uint")
DOUBLE = Type("double")
STRING = Type("string")
BYTES = Type("bytes")
NULL = Type("null")
TIMESTAMP = Type("timestamp")
DURATION = Type("duration")
DYN = Type("dyn")
ANY = Type("any")
ERROR = Type("error")
A = Type("param", "A")
B = Type("param", "B")


def list_of(element: Type) -> Type:
    """Return the type of a list of `element`."""
    return Type("list", params=(element,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of a map from `key` to `value`."""
    return Type("map", params=(key, value))


def type_of(inner: Type) -> Type:
    """Return the type of the type value `inner`."""
    return Type("type", params=(inner,))


def optional_of(inner: Type) -> Type:
    """Return the type of an optional `inner`."""
    return Type("opaque", "optional_type", (inner,))


def opaque(name: str, *params: Type) -> Type:
    """Return a type that only its own functions accept."""
    return Type("opaque", name, params)


QUANTITY = opaque("kubernetes.Quantity")
SEMVER = opaque("kubernetes.Semver")
URL = opaque("kubernetes.URL")
IP = opaque("net.IP")
CIDR = opaque("net.CIDR")
NAMED_FORMAT = opaque("kubernetes.NamedFormat")


_SPELT = {"error": "!error!", "dyn": "dyn", "any": "any"}
_LONG = 2_000


def describe(type_: Type) -> str:
    """Return the type as cel-go spells it in errors; a very long type is truncated."""
    pieces: list[str] = []
    _spell(type_, pieces, [_LONG])
    return "".join(pieces)


def _spell(type_: Type, pieces: list[str], left: list[int]) -> None:
    left[0] -= 1
    if left[0] <= 0 or len(pieces) > _LONG:
        pieces.append("...")
        return
    if type_.kind in {"opaque", "object", "param"}:
        pieces.append(type_.name)
    else:
        pieces.append(_SPELT.get(type_.kind, type_.kind))
    if not type_.params:
        return
    pieces.append("(")
    for index, param in enumerate(type_.params):
        if index:
            pieces.append(", ")
        _spell(param, pieces, left)
        if left[0] <= 0:
            break
    pieces.append(")")
