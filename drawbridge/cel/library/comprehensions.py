"""The functions that two-variable macros expand to; they add an entry to a map."""

from typing import Final

from drawbridge.cel.declare import Function, Library, Overload
from drawbridge.cel.types import A, B, map_of
from drawbridge.cel.values import CelValue, find, grow, iterate, make_map

_MAP: Final = map_of(A, B)


def _copy(given: CelValue) -> CelValue:
    return make_map((key, find(given, key)) for key in iterate(given))


def _insert(given: CelValue, key: CelValue, value: CelValue) -> CelValue:
    return grow(_copy(given), key, value)


def _insert_all(given: CelValue, entries: CelValue) -> CelValue:
    grown = _copy(given)
    for key in iterate(entries):
        grown = grow(grown, key, find(entries, key))
    return grown


COMPREHENSIONS: Final = Library(
    "cel.lib.ext.comprev2",
    (
        Function(
            "cel.@mapInsert",
            (
                Overload("@mapInsert_map_key_value", (_MAP, A, B), _MAP, _insert),
                Overload("@mapInsert_map_map", (_MAP, _MAP), _MAP, _insert_all),
            ),
        ),
    ),
)
