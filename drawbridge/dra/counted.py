"""Writes counts and lists in messages: `2 devices`, `exactly or firstAvailable`."""

from collections.abc import Iterable


def count_noun(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 device`, `2 devices`, `2,000 devices`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def join_words(words: Iterable[str], conjunction: str) -> str:
    """Return a list of words: `a`, `a or b`, `a, b or c`."""
    *others, last = words
    return f"{', '.join(others)} {conjunction} {last}" if others else last
