"""The classes of the values that Python has none for, and what each kind is called.

Knows nothing of how values compare; that is in `values`, which is what others import.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from cel.errors import EvaluationError
from cel.net import Cidr, Ip
from cel.numbers import INT_MAX, to_int, to_uint
from cel.semver import Semver
from cel.times import Duration, Timestamp
from cel.url import Url
from dra.quantity import Quantity

CelValue = object


class Uint(int):
    """A CEL uint; its class is what tells it from an int."""

    __slots__ = ()


class ComputedQuantity(Quantity):
    """A quantity that was computed.

    Upstream holds it by pointer, and so a plain quantity does not compare with it: `==` with a
    sum on the right side has no such overload, with a sum on the left it works.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value; two are equal when their names are."""

    name: str


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format of Kubernetes that texts are validated against; `problems` says what is wrong."""

    name: str
    problems: Callable[[str], list[str]]
    regex_size: int


class _Missing:
    """What a look-up that found nothing returns; no value of an expression is this."""

    __slots__ = ()


MISSING: Final = _Missing()


class Optional:
    """A value or nothing."""

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

    Keys of unlike kinds are apart even when they are equal (`1` and `1u`); a look-up tries the
    kind that was asked for first and then the number of another kind.
    """

    __slots__ = ("_entries",)

    def __init__(self, pairs: Iterable[tuple[CelValue, CelValue]]) -> None:
        self._entries = {_exact(key): (key, value) for key, value in pairs}

    def __len__(self) -> int:
        return len(self._entries)

    def keys(self) -> list[CelValue]:
        """Return the keys in the order in which they were written."""
        return [key for key, _ in self._entries.values()]

    def add(self, key: CelValue, value: CelValue) -> None:
        """Put a value under a key. Only for a map that nobody else has seen yet."""
        self._entries[_exact(key)] = (key, value)

    def find(self, key: CelValue) -> CelValue:
        """Return the value under a key, or MISSING."""
        found = self._entries.get(_exact(key))
        if found is None:
            for other in _same_number(key):
                found = self._entries.get(other)
                if found is not None:
                    break
        return MISSING if found is None else found[1]


def no_such_overload(what: str = "") -> EvaluationError:
    """Make the error of a function that is not there for these kinds of values."""
    text = f"no such overload: {what}" if what else "no such overload"
    return EvaluationError("no_such_overload", text)


def type_name(value: CelValue) -> str:
    """Return the name of the type of a value."""
    return NAMES[kind_of(value)]


def type_value(value: CelValue) -> TypeValue:
    """Return the type of a value as a value."""
    return _TYPE_VALUES[kind_of(value)]


def kind_of(value: CelValue) -> type:
    """Return the class that stands for the kind of a value in the tables here."""
    kind = type(value)
    if kind in NAMES:
        return kind
    for known in NAMES:
        if isinstance(value, known):
            return known
    raise TypeError(f"{kind.__name__} is no class of CEL values")


def _exact(key: CelValue) -> object:
    """Return what stands for a key: unlike kinds and unlike values stand apart."""
    kind = type(key)
    if kind is str or kind is int:
        return key
    if kind in _BY_VALUE:
        return kind, key
    if isinstance(key, Timestamp):
        return kind, key, key.offset
    if kind in _UNHASHABLE:
        raise EvaluationError("internal", f"a {type_name(key)} cannot be the key of a map")
    # The rest upstream knows by address, so that no other one is found under the same key.
    return kind, id(key)


def _same_number(key: CelValue) -> Iterable[object]:
    """Return what stands for the same number as int and as uint."""
    if isinstance(key, bool) or not isinstance(key, (int, float)):
        return ()
    if isinstance(key, float):
        whole, unsigned = to_int(key), to_uint(key)
        found: list[object] = [whole] if whole is not None and whole == key else []
        return (
            [*found, (Uint, Uint(unsigned))] if unsigned is not None and unsigned == key else found
        )
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
