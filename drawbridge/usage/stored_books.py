"""The ConfigMaps of books, one for each of the last 62 days: a book replaces that of 62 days ago.

So their number and names are fixed, nothing has to be deleted, and a role can name them. Until a
month ends, they have all days of the month before.
"""

from collections.abc import Mapping
from typing import Any, Final

from drawbridge.names import USAGE_CONFIG_MAP_PREFIX
from drawbridge.usage.book import Book, BookError, format_book, read_book

KEY: Final = "book.json"
# No two months in a row have more days.
MAX_DAYS: Final = 62


def name_of_day(day: int) -> str:
    """Return the name of the ConfigMap with the book of a day since 1970."""
    return f"{USAGE_CONFIG_MAP_PREFIX}{day % MAX_DAYS + 1:02}"


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
