"""Replaces ranges of a text, and finds its lines."""

from collections.abc import Iterable
from typing import NamedTuple


class EditRefusedError(Exception):
    """Raised if a change cannot be written; the message is the reason, with its own `remedy`."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.remedy = remedy or "Write the object in ordinary block style."


class TextChange(NamedTuple):
    """The text between `start` and `end` becomes `text`."""

    start: int
    end: int
    text: str


def apply_changes(text: str, changes: Iterable[TextChange]) -> str:
    """Apply the changes; insertions at one position keep their order.

    Raises EditRefusedError if changes overlap.
    """
    parts = []
    at = 0
    for change in sorted(changes, key=lambda each: (each.start, each.end)):
        if change.start < at:
            raise EditRefusedError("two changes touch the same text")
        parts += [text[at : change.start], change.text]
        at = change.end
    return "".join([*parts, text[at:]])


def split_lines(text: str) -> list[str]:
    """Split a text into its lines, each with its end; only LF ends a line."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def line_start(text: str, at: int) -> int:
    """Return the start of the line at an offset."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """Return the end of the line at an offset, before its line break."""
    end = text.find("\n", at)
    if end < 0:
        return len(text)
    return end - 1 if end > at and text[end - 1] == "\r" else end


def next_line(text: str, at: int) -> int:
    """Return the start of the line after the line at an offset."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def comments_above(text: str, at: int) -> int:
    """Return the start of the comments right above the line at an offset, in its column.

    Comments at the beginning of a text are about all of it.
    """
    start, indent = line_start(text, at), column(text, at)
    while start:
        above = line_start(text, start - 1)
        line = text[above:start]
        if not line.lstrip(" ").startswith("#") or len(line) - len(line.lstrip(" ")) != indent:
            break
        start = above
    return start or line_start(text, at)


def comments_below(text: str, end: int, indent: int) -> int:
    """Return the end of the comments right below a line, as far as they are deeper."""
    while (below := next_line(text, end)) < len(text):
        stop = line_end(text, below)
        line = text[below:stop]
        if not line.lstrip(" ").startswith("#") or len(line) - len(line.lstrip(" ")) <= indent:
            break
        end = stop
    return end


def starts_line(text: str, at: int) -> bool:
    """Whether only spaces precede an offset in its line."""
    return not text[line_start(text, at) : at].strip(" ")


def column(text: str, at: int) -> int:
    """Return the column of an offset, from 0."""
    return at - line_start(text, at)
