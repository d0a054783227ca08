"""Finds the entries of lists that have no effect, because an earlier entry is for the same.

In these lists, the first entry that is for something applies. Each list says what an entry is for.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Final, NamedTuple

from drawbridge.config import codes
from drawbridge.config.model import Configuration
from drawbridge.finding import Finding
from drawbridge.names import PARTITION_ATTRIBUTE

_REMEDY: Final = "Add what it has to the earlier entry, or remove it."


class _Entry(NamedTuple):
    """An entry at a path: what it is for, and which of that; without a selector, all."""

    path: str
    subject: Hashable
    selector: str | None = None


def check_shadowed(configuration: Configuration, object_name: str) -> Iterator[Finding]:
    """Yield findings for entries for what an earlier one is for."""
    for list_entries in _LISTS:
        first: dict[tuple[Hashable, str | None], str] = {}
        shadowed: dict[str, str] = {}
        for path, subject, selector in list_entries(configuration):
            earlier = first.get((subject, None)) or first.get((subject, selector))
            if earlier:
                shadowed.setdefault(path, earlier)
            first.setdefault((subject, selector), path)
        for path, earlier in shadowed.items():
            message = f"has no effect: {earlier} comes first and is for the same"
            yield codes.ENTRY_WITHOUT_EFFECT.at(path, message, object=object_name, remedy=_REMEDY)


def _list_fleet(configuration: Configuration) -> Iterator[_Entry]:
    for i, entry in enumerate(configuration.fleet):
        yield _Entry(f"fleet[{i}]", entry.class_)


def _list_rules(configuration: Configuration) -> Iterator[_Entry]:
    for i, entry in enumerate(configuration.compatibility):
        if entry.compatible_only_with is not None:
            path = f"compatibility[{i}].compatibleOnlyWith"
            yield _Entry(path, entry.driver, entry.selector)


def _list_groups(configuration: Configuration) -> Iterator[_Entry]:
    for i, entry in enumerate(configuration.compatibility):
        if entry.groups is not None:
            yield _Entry(f"compatibility[{i}].groups", entry.driver, entry.selector)


def _list_partitions(configuration: Configuration) -> Iterator[_Entry]:
    """Yield each partition of an entry once: two partitions of one entry are compared elsewhere."""
    for i, entry in enumerate(configuration.partitions):
        name = entry.name or PARTITION_ATTRIBUTE
        listed: dict[frozenset[int], int] = {}
        for j, numbers in enumerate(entry.partitions):
            listed.setdefault(frozenset(numbers), j)
        for members, j in listed.items():
            subject = (entry.driver, entry.attribute, name, members)
            yield _Entry(f"partitions[{i}].partitions[{j}]", subject, entry.selector)


_LISTS: Final[tuple[Callable[[Configuration], Iterator[_Entry]], ...]] = (
    _list_fleet,
    _list_rules,
    _list_groups,
    _list_partitions,
)
