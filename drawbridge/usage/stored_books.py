"""The ConfigMaps of books, one for each of the last 62 days: a book replaces that of 62 days ago.

So their number and names are fixed, nothing has to be deleted, and a role can name them. Until a
month ends, they have all days of the month before.

Earlier versions named a book by its day of the month. What they wrote is read, and never replaced.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from drawbridge.names import USAGE_CONFIG_MAP_PREFIX
from drawbridge.usage.book import Book, BookError, format_book, format_day, read_book

KEY: Final = "book.json"
# No two months in a row have more days.
MAX_DAYS: Final = 62
_FORMER: Final = range(1, 32)  # the numbers of earlier versions

T = TypeVar("T")


def name_of_day(day: int) -> str:
    """Return the name of the ConfigMap with the book of a day since 1970."""
    return f"{USAGE_CONFIG_MAP_PREFIX}{day % MAX_DAYS + _FORMER.stop}"


def names_of_day(day: int) -> tuple[str, str]:
    """Return the names that the book of a day can have: that of this version, then the former."""
    return name_of_day(day), f"{USAGE_CONFIG_MAP_PREFIX}{format_day(day):%d}"


def all_names() -> tuple[str, ...]:
    """Return the names of all ConfigMaps with books."""
    numbers = range(_FORMER.start, _FORMER.stop + MAX_DAYS)
    return tuple(f"{USAGE_CONFIG_MAP_PREFIX}{number:02}" for number in numbers)


def completeness(book: Book) -> tuple[int, int]:
    """Return what is larger for the more complete one of two books of a day.

    Both exist if two versions wrote in turn; the later one has what the other one began.
    """
    return book.through, -sum(end - start for start, end in book.gaps)


def choose_books(stored: Iterable[tuple[Book, T]]) -> list[tuple[Book, T]]:
    """Return books with what belongs to them, earliest first; of those that overlap, one."""
    chosen: list[tuple[Book, T]] = []
    for candidate in sorted(stored, key=lambda pair: completeness(pair[0]), reverse=True):
        book = candidate[0]
        if all(book.through <= other.start or other.through <= book.start for other, _ in chosen):
            chosen.append(candidate)
    return sorted(chosen, key=lambda pair: pair[0].start)


def compose_config_map(book: Book, live: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the ConfigMap with a book; it replaces only the version that was read."""
    metadata = {**((live or {}).get("metadata") or {}), "name": name_of_day(book.day)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {KEY: format_book(book)},
    }


def read_config_map(config_map: Mapping[str, Any]) -> Book:
    """Read the book in a ConfigMap; raises BookError."""
    data = config_map.get("data")
    text = data.get(KEY) if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise BookError(f"data has no {KEY}")
    return read_book(text)
