"""Writes counts and lists in messages: `2 devices`, `exactly or firstAvailable`."""

from collections.abc import Iterable, Sequence


def count_noun(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 device`, `2 devices`, `2,000 devices`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def join_words(words: Iterable[str], conjunction: str) -> str:
    """Return a list of words: `a`, `a or b`, `a, b or c`."""
    *others, last = words
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def list_some(words: Sequence[str], most: int, noun: str) -> str:
    """Return a list of at most so many words: `a, b and 3 more nodes`."""
    more = len(words) - most
    listed = ", ".join(words[:most])
    return f"{listed} and {count_noun(more, f'more {noun}')}" if more > 0 else listed
