"""The operations that all CEL values have: equality, order, lookup and type names.

An int is a Python int, a double a float. Booleans, strings, bytes and null are Python's own. A list
is a list or a tuple, a map a dict with string keys or a `Map`. Other kinds have their own classes.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.kinds import (
    MISSING,
    NAMES,
    NONE,
    CelValue,
    ComputedQuantity,
    Map,
    NamedFormat,
    Optional,
    TypeValue,
    Uint,
    kind_of,
    no_such_overload,
    type_name,
    type_value,
)
from drawbridge.cel.net import Cidr, Ip
from drawbridge.cel.numbers import INT_MAX, to_int
from drawbridge.cel.semver import Semver
from drawbridge.cel.times import Duration, Timestamp
from drawbridge.cel.types import Type
from drawbridge.cel.url import Url
from drawbridge.dra.quantity import Quantity

__all__ = [
    "MISSING",
    "NONE",
    "CelValue",
    "Cidr",
    "ComputedQuantity",
    "Duration",
    "Ip",
    "Map",
    "NamedFormat",
    "Optional",
    "Quantity",
    "Semver",
    "Timestamp",
    "TypeValue",
    "Uint",
    "Url",
    "actual_size",
    "compare",
    "contains",
    "equal",
    "extent",
    "find",
    "fits",
    "grow",
    "iterate",
    "make_map",
    "no_such_overload",
    "same",
    "size",
    "type_name",
    "type_value",
    "type_value_of",
]  # fmt: skip

# The work of comparing or writing one value, without its characters and elements.
_ELEMENT: Final = 8
# Results for pairs of lists and maps, by identity, during one comparison.
_Seen = dict[tuple[int, int], bool]


def make_map(pairs: Iterable[tuple[CelValue, CelValue]]) -> CelValue:
    """Create a map; the last of equal keys is effective."""
    entries = list(pairs)
    for key, _ in entries:
        if type(key) is not str:
            return Map(entries)
    return dict(entries)


def grow(container: CelValue, key: CelValue, value: CelValue) -> CelValue:
    """Add an entry to an unshared map, in place if possible; refuse a duplicate key."""
    if contains(container, key):
        raise EvaluationError("duplicate_key", f"insert failed: key {key} already exists")
    if isinstance(container, dict) and type(key) is str:
        container[key] = value
        return container
    if isinstance(container, dict):
        container = Map(container.items())
    if not isinstance(container, Map):
        raise no_such_overload()
    container.add(key, value)
    return container


def equal(a: CelValue, b: CelValue) -> bool:
    """Tell whether two values of any kinds are equal.

    Values of different kinds are unequal, except equal numbers. A Kubernetes type on the left of
    another kind raises an error.
    """
    kind = type(a)
    if kind is type(b) and kind in _PLAIN:
        return a == b
    if a is None or b is None:
        return a is b
    return _EQUAL[kind_of(a)](a, b)


def same(a: CelValue, b: CelValue) -> bool:
    """Tell whether two values are equal without doubt; errors and null count as unequal."""
    kind = type(a)
    if kind is type(b) and kind in _PLAIN:
        return a == b
    if a is None:
        return b is None
    try:
        return _EQUAL[kind_of(a)](a, b)
    except EvaluationError:
        return False


def contains(container: CelValue, element: CelValue) -> bool:
    """Tell whether a list contains an equal element, or a map the key (`in`)."""
    if isinstance(container, (list, tuple)):
        kind = type(element)
        if kind is str:
            # bool, int and str never equal a str in Python, so this is exact.
            return element in container
        return any(same(element, other) for other in container)
    if isinstance(container, dict):
        return type(element) is str and element in container
    if isinstance(container, Map):
        return container.find(element) is not MISSING
    raise no_such_overload()


def compare(a: CelValue, b: CelValue) -> int:
    """Return -1, 0 or 1; raises an error if the values have no order."""
    kind, other = type(a), type(b)
    if kind in _NUMBERS and other in _NUMBERS:
        return _compare_numbers(a, b)  # type: ignore[arg-type]
    if kind is not other:
        raise no_such_overload()
    if kind in _ORDERED:
        return int(a > b) - int(a < b)  # type: ignore[operator]
    if isinstance(a, (Timestamp, Duration)) and isinstance(b, (Timestamp, Duration)):
        return (a.nanos > b.nanos) - (a.nanos < b.nanos)
    raise no_such_overload()


def size(value: CelValue) -> int:
    """Return the result of `size()`: characters, bytes, elements or entries."""
    if isinstance(value, (str, bytes, list, tuple, dict, Map)):
        return len(value)
    raise no_such_overload()


def actual_size(value: CelValue) -> int:
    """Return the size for counted costs: 1 for errors and values without a size.

    An optional has the size of its value.
    """
    while isinstance(value, Optional) and value.present:
        value = value.value
    if isinstance(value, (str, bytes, list, tuple, dict, Map)):
        return len(value)
    if isinstance(value, (Ip, Cidr)):
        return value.size
    return 1


def extent(value: CelValue, character: float = 0.002, scalar: int = _ELEMENT) -> int:
    """Return the work of one pass over a value and all nested ones, each as often as it occurs.

    `character` is the work of one character, and `scalar` that of a value that is neither a text
    nor an integer; the unit is that of `drawbridge.cel.meter`.
    """
    return math.ceil(min(_extent(value, character, scalar, {}), 2.0**62))


def _extent(value: CelValue, character: float, scalar: int, extents: dict[int, float]) -> float:
    if isinstance(value, (str, bytes)):
        return _ELEMENT + len(value) * character
    if isinstance(value, Optional):
        return _ELEMENT + _extent(value.value, character, scalar, extents)
    if not isinstance(value, (list, tuple, dict, Map)):
        return _ELEMENT if isinstance(value, int) else scalar
    # Values can contain the same value many times, so each is computed once and added each time.
    total = extents.get(id(value))
    if total is None:
        total = float(_ELEMENT)
        for element in iterate(value):
            total += _extent(element, character, scalar, extents)
            if not isinstance(value, (list, tuple)):
                total += _extent(find(value, element), character, scalar, extents)
        extents[id(value)] = total
    return total


def find(container: CelValue, key: CelValue) -> CelValue:
    """Return the element or entry under a key, or MISSING; raises for an invalid key."""
    if isinstance(container, dict):
        entry = container.get(key, MISSING) if type(key) is str else MISSING
        # A map with a default returns a value for every key, though it does not contain it.
        if entry is MISSING and hasattr(container, "__missing__"):
            return container[key]
        return entry
    if isinstance(container, Map):
        return container.find(key)
    if isinstance(container, (list, tuple)):
        at = _position(key)
        return container[at] if 0 <= at < len(container) else MISSING
    raise no_such_overload()


def iterate(value: CelValue) -> Sequence[CelValue]:
    """Return the range of a comprehension: the elements of a list or the keys of a map."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, dict):
        return list(value)
    if isinstance(value, Map):
        return value.keys()
    raise EvaluationError(
        "not_iterable", f"a {type_name(value)} is neither a list nor a map to go over"
    )


def type_value_of(type_: Type) -> TypeValue:
    """Return the value that the name of this type refers to."""
    return TypeValue(_RUNTIME_NAMES.get(type_.kind) or type_.name or type_.kind)


def fits(type_: Type) -> Callable[[CelValue], bool] | None:
    """Return a check of whether a value fits this type; None if every value does.

    Type parameters are erased at run time, but the first element of a list or map is examined.
    """
    if type_.kind in {"dyn", "any", "param", "error"}:
        return None
    if type_.kind == "wrapper":
        inner = fits(type_.params[0])
        return inner and (lambda value: value is None or inner(value))
    if type_.kind in {"list", "map"}:
        return _fits_aggregate(type_)
    kinds = _KINDS_OF.get(type_value_of(type_).name)
    if kinds is None:
        return lambda _: False
    return lambda value: type(value) in kinds


def _fits_aggregate(type_: Type) -> Callable[[CelValue], bool]:
    first = fits(type_.params[0])
    if type_.kind == "list":
        return lambda value: (
            isinstance(value, (list, tuple)) and (first is None or not value or first(value[0]))
        )
    second = fits(type_.params[1])

    def check(value: CelValue) -> bool:
        if not isinstance(value, (dict, Map)):
            return False
        if not len(value) or (first is None and second is None):
            return True
        key = next(iter(iterate(value)))
        return (first is None or first(key)) and (second is None or second(find(value, key)))

    return check


def _position(key: CelValue) -> int:
    """Return the index of a list: an int, or another number without a fraction."""
    if isinstance(key, (int, float)) and not isinstance(key, bool):
        whole = to_int(key) if isinstance(key, float) else int(key)
        if whole is not None and whole == key and whole <= INT_MAX:
            return whole
        raise EvaluationError("index", f"unsupported index value {key} in list")
    raise EvaluationError("index", f"unsupported index type '{type_name(key)}' in list")


def _compare_numbers(a: float, b: float) -> int:
    # cel-go compares with a double as doubles: 2**53 + 1 equals 2.0**53.
    if float in {type(a), type(b)}:
        a, b = float(a), float(b)
    if a < b:
        return -1
    if a > b:
        return 1
    if a != b:
        raise EvaluationError("nan_order", "NaN values cannot be ordered")
    return 0


def _equal_numbers(a: CelValue, b: CelValue) -> bool:
    if type(a) not in _NUMBERS or type(b) not in _NUMBERS:
        return False
    if isinstance(a, float) or isinstance(b, float):
        return float(a) == float(b)  # type: ignore[arg-type]
    return a == b


def _equal_plain(a: CelValue, b: CelValue) -> bool:
    return type(a) is type(b) and a == b


def _equal_lists(a: CelValue, b: CelValue, seen: _Seen | None = None) -> bool:
    if not isinstance(a, (list, tuple)) or not isinstance(b, (list, tuple)) or len(a) != len(b):
        return False
    seen = {} if seen is None else seen
    equal = seen.get((id(a), id(b)))
    if equal is None:
        equal = True
        for mine, other in zip(a, b, strict=True):
            if not _element_equal(mine, other, seen):
                equal = False
                break
        seen[id(a), id(b)] = equal
    return equal


def _equal_maps(a: CelValue, b: CelValue, seen: _Seen | None = None) -> bool:
    if not isinstance(a, (dict, Map)) or not isinstance(b, (dict, Map)) or len(a) != len(b):
        return False
    seen = {} if seen is None else seen
    equal = seen.get((id(a), id(b)))
    if equal is None:
        equal = True
        for key in iterate(a):
            other = find(b, key)
            if other is MISSING or not _element_equal(find(a, key), other, seen):
                equal = False
                break
        seen[id(a), id(b)] = equal
    return equal


def _element_equal(a: CelValue, b: CelValue, seen: _Seen) -> bool:
    """Tell whether two elements count as equal inside a list or map.

    cel-go checks only for `false` here, so a comparison that fails counts as equal.
    """
    kind = type(a)
    if kind is type(b) and kind in _PLAIN:
        return a == b
    if a is None or b is None:
        return a is b
    # Values can contain the same value many times, so each pair is compared once.
    if isinstance(a, (list, tuple)):
        return _equal_lists(a, b, seen)
    if isinstance(a, (dict, Map)):
        return _equal_maps(a, b, seen)
    try:
        return _EQUAL[kind_of(a)](a, b)
    except EvaluationError:
        return True


def _equal_optionals(a: CelValue, b: CelValue) -> bool:
    if not isinstance(a, Optional) or not isinstance(b, Optional):
        return False
    if not a.present or not b.present:
        return a.present == b.present
    if a.value is None:
        return b.value is None
    return _EQUAL[kind_of(a.value)](a.value, b.value)


def _equal_types(a: CelValue, b: CelValue) -> bool:
    return isinstance(b, TypeValue) and isinstance(a, TypeValue) and a.name == b.name


def _equal_quantities(a: CelValue, b: CelValue) -> bool:
    if type(b) is not Quantity:
        raise no_such_overload()
    return a == b


def _equal_formats(a: CelValue, b: CelValue) -> bool:
    if not isinstance(a, NamedFormat) or not isinstance(b, NamedFormat):
        raise no_such_overload()
    return a.name == b.name


def _equal_opaques(a: CelValue, b: CelValue) -> bool:
    if type(a) is not type(b):
        raise no_such_overload()
    return a == b


_PLAIN: Final = frozenset({str, int, bool, float, Uint, bytes, Timestamp, Duration})
_NUMBERS: Final = frozenset({int, Uint, float})
_ORDERED: Final = frozenset({str, bool, bytes})
_RUNTIME_NAMES: Final = {
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}
_KINDS_OF: Final = {
    name: frozenset(kind for kind, other in NAMES.items() if other == name)
    for name in set(NAMES.values())
}
_EQUAL: Final[dict[type, Callable[[CelValue, CelValue], bool]]] = {
    **dict.fromkeys((int, Uint, float), _equal_numbers),
    **dict.fromkeys((str, bool, bytes, Timestamp, Duration), _equal_plain),
    **dict.fromkeys((list, tuple), _equal_lists),
    **dict.fromkeys((dict, Map), _equal_maps),
    **dict.fromkeys((Quantity, ComputedQuantity), _equal_quantities),
    **dict.fromkeys((Semver, Url, Ip, Cidr), _equal_opaques),
    TypeValue: _equal_types,
    Optional: _equal_optionals,
    NamedFormat: _equal_formats,
    type(None): lambda a, b: a is b,
}
