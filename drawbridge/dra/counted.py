"""Writes counts in messages: a number with its noun in the singular or the plural."""


def count_noun(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 device`, `2 devices`, `2,000 devices`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
