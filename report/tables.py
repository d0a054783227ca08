"""Trees and tables as lines of text, aligned, in ASCII or with the nicer characters of UTF-8.

Knows nothing of what it draws.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

GAP: Final = "  "


class Glyphs(NamedTuple):
    """What the lines of a tree are made of, all of one width."""

    fork: str
    last: str
    down: str
    blank: str


ASCII: Final = Glyphs("|- ", "`- ", "|  ", "   ")
UNICODE: Final = Glyphs("├─ ", "└─ ", "│  ", "   ")


class Branch(NamedTuple):
    """One line of a tree, with columns behind its label and what hangs below it."""

    label: str
    columns: tuple[str, ...] = ()
    below: tuple["Branch", ...] = ()


def tree(root: Branch, glyphs: Glyphs) -> list[str]:
    """Draw a tree; columns are aligned over all of its lines."""
    return table([(root.label, *root.columns), *_rows(root.below, glyphs, "")])


def _rows(branches: Sequence[Branch], glyphs: Glyphs, before: str) -> Iterator[tuple[str, ...]]:
    for i, branch in enumerate(branches, 1):
        more = i < len(branches)
        yield (before + (glyphs.fork if more else glyphs.last) + branch.label, *branch.columns)
        yield from _rows(branch.below, glyphs, before + (glyphs.down if more else glyphs.blank))


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align rows in columns; a row of one cell stands alone and widens no column."""
    cells = [[printable(cell) for cell in row] for row in rows]
    columns = zip_longest(*(row for row in cells if len(row) > 1), fillvalue="")
    widths = [max(map(len, column)) for column in columns]
    return [_line(row, widths if len(row) > 1 else [0]) for row in cells]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()


def printable(text: str) -> str:
    """Show what would move the cursor or colour the terminal as an escape."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]
