"""Suggests the name that a person probably meant instead of an unknown one."""

import difflib
from collections.abc import Iterable


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message: `; did you mean allocationMode?`, or nothing."""
    near = find_similar(name, known)
    return f"; did you mean {near}?" if near else ""


def find_similar(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most similar, whatever its case; empty if none is."""
    names = {each.casefold(): each for each in sorted(known, reverse=True)}
    near = difflib.get_close_matches(name.casefold(), names, n=1)
    return names[near[0]] if near else ""
