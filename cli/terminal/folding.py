"""Folds lines of text to the width of a terminal, so that narrow ones can be read."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, TextIO

from cli.terminal.printable import StreamAbove

_LEAST: Final = 20  # columns; a narrower terminal wraps
_STEP: Final = 4  # columns that the rest of a line is indented by
_COLOUR: Final = re.compile(r"\033\[[0-9;]*m")
# Where a word without spaces, such as a path, is divided first.
_AFTER: Final = frozenset("/.,:;=&)]}")


class FoldingStream(StreamAbove):
    """Writes text to a terminal; a line that is too long continues on the next ones, indented."""

    def __init__(self, terminal: TextIO, columns: int) -> None:
        super().__init__(terminal)
        self._columns = max(columns, _LEAST)
        self._begun = ""  # of the last line

    def write(self, text: str) -> int:
        """Write the complete lines, and keep the last one until it is complete."""
        *lines, self._begun = f"{self._begun}{text}".split("\n")
        for line in lines:
            self.beneath.writelines(f"{part}\n" for part in fold_line(line, self._columns))
        return len(text)

    def flush(self) -> None:
        """Write the rest, too."""
        parts = list(fold_line(self._begun, self._columns)) if self._begun else []
        self.beneath.write("\n".join(parts))
        self._begun = ""
        super().flush()


def fold_line(line: str, columns: int) -> Iterator[str]:
    """Yield the parts of a line, each at most as wide as the terminal."""
    indent = len(line) - len(line.lstrip(" "))
    margin = " " * min(indent + _STEP, columns // 2)
    if indent > len(margin):
        line = margin + line[indent:]
    while (end := _fit(line, columns)) < len(line):
        at = _division(line, end)
        yield line[:at].rstrip()
        line = margin + line[at:].lstrip()
    yield line


def _fit(line: str, columns: int) -> int:
    """Return how many characters of a line fit; the escape sequences of colours take no room."""
    used = at = 0
    while at < len(line):
        colour = _COLOUR.match(line, at)
        if colour is not None:
            at = colour.end()
            continue
        used += _width(line[at])
        if used > columns:
            return at
        at += 1
    return at


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _division(line: str, end: int) -> int:
    """Return where to divide a line whose first `end` characters fit."""
    start = len(line) - len(line.lstrip(" "))
    least = start + (end - start) // 2  # a part that is much shorter leaves a gap
    space = line.rfind(" ", start + 1, end + 1)
    if space > least:
        return space
    for at in range(end, least, -1):
        if line[at - 1] in _AFTER:
            return at
    return space if space > start else end
