"""Changes to a text as cuts: a range, and what stands there instead.

Knows lines, and nothing of YAML or JSON.
"""

from collections.abc import Iterable
from typing import NamedTuple


class EditRefusedError(Exception):
    """A change that cannot be written; its message says why."""


class TextChange(NamedTuple):
    """The text between `start` and `end` becomes `text`."""

    start: int
    end: int
    text: str


def apply_changes(text: str, cuts: Iterable[TextChange]) -> str:
    """Make the cuts; what is only added at one place goes in the order given.

    Raises RefusedError.
    """
    parts = []
    at = 0
    for cut in sorted(cuts, key=lambda each: (each.start, each.end)):
        if cut.start < at:
            raise EditRefusedError("two changes touch the same text")
        parts += [text[at : cut.start], cut.text]
        at = cut.end
    return "".join([*parts, text[at:]])


def line_start(text: str, at: int) -> int:
    """Return where the line of a place begins."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """Return where the line of a place ends, before its line break."""
    end = text.find("\n", at)
    if end < 0:
        return len(text)
    return end - 1 if end > at and text[end - 1] == "\r" else end


def next_line(text: str, at: int) -> int:
    """Return where the line after the line of a place begins."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def starts_line(text: str, at: int) -> bool:
    """Whether only spaces stand before a place in its line."""
    return not text[line_start(text, at) : at].strip(" ")


def column(text: str, at: int) -> int:
    """Return how far a place is from the beginning of its line."""
    return at - line_start(text, at)
