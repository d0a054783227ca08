"""The ConfigMaps of books, one for each day of a month: a book replaces that of a month ago.

So their number and names are fixed, nothing has to be deleted, and a role can name them.
"""

from collections.abc import Mapping
from typing import Any, Final

from drawbridge.names import USAGE_CONFIG_MAP_PREFIX
from drawbridge.usage.book import Book, BookError, format_book, format_day, read_book

KEY: Final = "book.json"
# No day of a month is further back.
MAX_DAYS: Final = 31


def name_of_day(day: int) -> str:
    """Return the name of the ConfigMap with the book of a day since 1970."""
    return f"{USAGE_CONFIG_MAP_PREFIX}{format_day(day):%d}"


def all_names() -> tuple[str, ...]:
    """Return the names of all ConfigMaps with books."""
    return tuple(f"{USAGE_CONFIG_MAP_PREFIX}{day:02}" for day in range(1, MAX_DAYS + 1))


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
