"""Measures the memory that decoded objects take.

Each value of an object is counted, so that no shape of it takes more than is measured: many small
fields, wide characters, numbers. A value that several objects share is counted for each of them.
An object of very many values is not walked. The highest price of its text counts instead, so that
the work for one object is bounded.
"""

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from operator import attrgetter
from sys import getsizeof
from typing import Any, Final

import msgspec

# As many are measured within a few milliseconds. A slice of 128 devices has a third of them.
MAX_VALUES: Final = 20_000
# What is kept of an object besides its values: its entries in the tables of its cache.
_BYTES_OF_AN_OBJECT: Final = 600
# Of a text: one character of four bytes makes all others as wide, and it is kept as UTF-8 too.
_BYTES_OF_A_WIDE_BYTE: Final = 5
_BYTES_OF_A_VALUE: Final = 100
_BYTES_OF_A_NAME: Final = 150
_ASCII: Final = getsizeof("") + 15
_EMPTY_DICT: Final = getsizeof({}) + 15 & -16
_BYTES_OF_RAW: Final = 64  # besides its bytes; what getsizeof tells of it has no meaning
_Parts = Callable[[Any], Collection[Any]]


def measure_memory(*kept: object, text: bytes) -> int:
    """Return how many bytes an object takes of which this is kept; `text` is its JSON."""
    measured = _measure(kept)
    if measured is not None:
        return _BYTES_OF_AN_OBJECT + measured
    wide = (_BYTES_OF_A_WIDE_BYTE - 1) * len(text)
    return estimate_memory(text) + wide + _BYTES_OF_A_NAME * text.count(b":")


def estimate_memory(text: bytes) -> int:
    """Return about how many bytes the decoded values of a text take; does not walk them."""
    values = text.count(b",") + text.count(b"{") + text.count(b"[")
    is_wide = not text.isascii() or b"\\u" in text
    of_text = len(text) * (_BYTES_OF_A_WIDE_BYTE if is_wide else 1)
    return _BYTES_OF_AN_OBJECT + of_text + _BYTES_OF_A_VALUE * values


def _measure(kept: tuple[object, ...]) -> int | None:
    """Return the bytes of some values and of all that they have; None if those are too many."""
    total, seen, left = 0, 0, [*kept]
    while left:
        value = left.pop()
        kind = value.__class__
        size = _BYTES_OF_RAW if kind is msgspec.Raw else getsizeof(value)
        total += size + 15 & -16  # blocks of memory are multiples of 16 bytes
        find = _PARTS.get(kind)
        parts = (find or _note_parts(kind))(value)
        seen += len(parts)
        if seen > MAX_VALUES:
            return None
        for part in parts:
            # Nothing that is empty takes memory of its own but a dictionary.
            if not part:
                total += _EMPTY_DICT if part.__class__ is dict else 0
            elif part.__class__ is str:
                total += len(part) + _ASCII & -16 if part.isascii() else _measure_wide(part)
            elif part is not True and id(part) not in _DEFAULTS:
                left.append(part)
    return total


def _measure_wide(text: str) -> int:
    """Return the bytes of a text that is not ASCII, which can be kept as UTF-8 as well."""
    return getsizeof(text) + len(text.encode(errors="surrogatepass")) + 15 & -16


def _of_values(value: Collection[Any]) -> Collection[Any]:
    return value


def _of_mapping(value: Mapping[Any, Any]) -> Collection[Any]:
    return (*value, *value.values())


def _of_raw(value: msgspec.Raw) -> Collection[Any]:
    return (bytes(value),)


def _of_nothing(_: object) -> Collection[Any]:
    return ()


def _note_parts(kind: type) -> _Parts:
    """Return what tells of a value of some type which values it has, for the next one as well."""
    return _PARTS.setdefault(kind, _find_parts(kind))


def _find_parts(kind: type) -> _Parts:
    if issubclass(kind, (tuple, list, set, frozenset)):
        return _of_values
    if issubclass(kind, Mapping):
        return _of_mapping
    if issubclass(kind, msgspec.Raw):
        return _of_raw
    for default in getattr(kind, "__struct_defaults__", ()):
        if isinstance(default, msgspec.Struct):
            _DEFAULTS.add(id(default))
    fields = getattr(kind, "__struct_fields__", getattr(kind, "__slots__", ()))
    if issubclass(kind, Enum) or not fields:
        return _of_nothing
    if len(fields) == 1:
        (only,) = fields
        return lambda value: (getattr(value, only),)
    return attrgetter(*fields)


# The default values of fields exist once, as long as their types.
_DEFAULTS: Final[set[int]] = set()
# By type, of which there are as many as the process has.
_PARTS: Final[dict[type, _Parts]] = {}
