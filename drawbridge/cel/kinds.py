"""The classes of CEL values that have no Python type, and the name of each kind.

Equality and order are in `drawbridge.cel.values`, which other modules import.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.net import Cidr, Ip
from drawbridge.cel.numbers import INT_MAX, to_int, to_uint
from drawbridge.cel.semver import Semver
from drawbridge.cel.times import Duration, Timestamp
from drawbridge.cel.url import Url
from drawbridge.dra.quantity import Quantity

CelValue = object


class Uint(int):
    """A CEL uint; its class distinguishes it from an int."""

    __slots__ = ()


class ComputedQuantity(Quantity):
    """A quantity that was computed.

    Kubernetes holds it by pointer, so a plain quantity does not compare with it: `==` has no
    overload for a sum on the right side, but works with a sum on the left side.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value; two are equal if their names are equal."""

    name: str


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A named format of Kubernetes; `problems` returns the errors of a string."""

    name: str
    problems: Callable[[str], list[str]]
    regex_size: int


class _Missing:
    """The result of a lookup that finds nothing; it is never a CEL value."""

    __slots__ = ()


MISSING: Final = _Missing()


class Optional:
    """A CEL optional value."""

    __slots__ = ("value",)
    value: Final[CelValue]

    def __init__(self, value: CelValue = MISSING) -> None:
        self.value = value

    @property
    def present(self) -> bool:
        """Tell whether there is a value."""
        return self.value is not MISSING


NONE: Final = Optional()


class Map:
    """A map with keys that are not all strings.

    Keys of different kinds are distinct even if they are equal (`1` and `1u`). A lookup tries the
    kind of the given key first and then the same number of the other kind.
    """

    __slots__ = ("_entries",)

    def __init__(self, pairs: Iterable[tuple[CelValue, CelValue]]) -> None:
        self._entries = {_exact(key): (key, value) for key, value in pairs}

    def __len__(self) -> int:
        return len(self._entries)

    def keys(self) -> list[CelValue]:
        """Return the keys in source order."""
        return [key for key, _ in self._entries.values()]

    def add(self, key: CelValue, value: CelValue) -> None:
        """Set the value of a key. Use only on a map that is not shared yet."""
        self._entries[_exact(key)] = (key, value)

    def find(self, key: CelValue) -> CelValue:
        """Return the value under a key, or MISSING."""
        entry = self._entries.get(_exact(key))
        if entry is None:
            for other in _same_number(key):
                entry = self._entries.get(other)
                if entry is not None:
                    break
        return MISSING if entry is None else entry[1]


def no_such_overload(what: str = "") -> EvaluationError:
    """Return the error for a function that has no overload for these kinds of values."""
    text = f"no such overload: {what}" if what else "no such overload"
    return EvaluationError("no_such_overload", text)


def type_name(value: CelValue) -> str:
    """Return the name of the type of a value."""
    return NAMES[kind_of(value)]


def type_value(value: CelValue) -> TypeValue:
    """Return the type of a value as a value."""
    return _TYPE_VALUES[kind_of(value)]


def kind_of(value: CelValue) -> type:
    """Return the class that represents the kind of a value in the tables of this package."""
    kind = type(value)
    if kind in NAMES:
        return kind
    for base in NAMES:
        if isinstance(value, base):
            return base
    raise TypeError(f"{kind.__name__} is no class of CEL values")


def _exact(key: CelValue) -> object:
    """Return the lookup key; it differs for different kinds and different values."""
    kind = type(key)
    if kind is str or kind is int:
        return key
    if kind in _BY_VALUE:
        return kind, key
    if isinstance(key, Timestamp):
        return kind, key, key.offset
    if kind in _UNHASHABLE:
        raise EvaluationError("internal", f"a {type_name(key)} cannot be the key of a map")
    # cel-go compares other kinds by address, so two keys are never the same.
    return kind, id(key)


def _same_number(key: CelValue) -> Iterable[object]:
    """Return the lookup keys of the same number as int and as uint."""
    if isinstance(key, bool) or not isinstance(key, (int, float)):
        return ()
    if isinstance(key, float):
        whole, unsigned = to_int(key), to_uint(key)
        keys: list[object] = [whole] if whole is not None and whole == key else []
        return [*keys, (Uint, Uint(unsigned))] if unsigned is not None and unsigned == key else keys
    if isinstance(key, Uint):
        return (int(key),) if key <= INT_MAX else ()
    return ((Uint, Uint(key)),) if key >= 0 else ()


_BY_VALUE: Final = frozenset({bool, Uint, float, type(None), Duration, Ip, Cidr, TypeValue})
_UNHASHABLE: Final = frozenset({bytes, Semver, NamedFormat})
NAMES: Final[dict[type, str]] = {
    str: "string",
    bool: "bool",
    Uint: "uint",
    int: "int",
    float: "double",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    tuple: "list",
    dict: "map",
    Map: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeValue: "type",
    Optional: "optional_type",
    ComputedQuantity: "kubernetes.Quantity",
    Quantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    Url: "kubernetes.URL",
    Ip: "net.IP",
    Cidr: "net.CIDR",
    NamedFormat: "kubernetes.NamedFormat",
}
_TYPE_VALUES: Final = {kind: TypeValue(name) for kind, name in NAMES.items()}
