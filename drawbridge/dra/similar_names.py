"""Suggests the name that a person probably meant instead of an unknown one."""

import difflib
from collections.abc import Iterable
from typing import Final

# In a name of 14 letters, one is wrong or missing, or two are exchanged.
_MISSPELT: Final = 0.9


def suggest(name: str, candidates: Iterable[str]) -> str:
    """Return the end of a message: `; did you mean allocationMode?`, or nothing."""
    near = find_similar(name, candidates)
    return f"; did you mean {near}?" if near else ""


def find_similar(name: str, candidates: Iterable[str]) -> str:
    """Return the known name that is most similar, whatever its case; empty if none is."""
    names = {each.casefold(): each for each in sorted(candidates, reverse=True)}
    near = difflib.get_close_matches(name.casefold(), names, n=1)
    return names[near[0]] if near else ""


def is_misspelt(name: str, candidates: Iterable[str]) -> bool:
    """Tell whether a name is a known one with few letters wrong, or without its last labels."""
    candidates = tuple(candidates)
    near = difflib.get_close_matches(name, candidates, n=1, cutoff=_MISSPELT)
    if near and near[0] not in name:  # a name that contains another one is rather a new name
        return True
    return "." in name and any(each.startswith(f"{name}.") for each in candidates)
