"""Formats trees and tables as aligned lines of text, in ASCII or with Unicode box characters.

Also as CSV. Users write names and texts, which control neither a terminal nor a spreadsheet.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

GAP: Final = "  "
# A spreadsheet reads a cell that begins so as a formula.
_FORMULA: Final = ("=", "+", "-", "@")


class Glyphs(NamedTuple):
    """The prefixes of the lines of a tree, all of the same width."""

    fork: str
    last: str
    down: str
    blank: str


ASCII: Final = Glyphs("|- ", "`- ", "|  ", "   ")
UNICODE: Final = Glyphs("├─ ", "└─ ", "│  ", "   ")


class Branch(NamedTuple):
    """One line of a tree: its label, further columns, and child branches."""

    label: str
    columns: tuple[str, ...] = ()
    below: tuple["Branch", ...] = ()


def draw_tree(root: Branch, glyphs: Glyphs) -> list[str]:
    """Draw a tree; align the columns of all lines."""
    return align_columns([(root.label, *root.columns), *_rows(root.below, glyphs, "")])


def _rows(branches: Sequence[Branch], glyphs: Glyphs, before: str) -> Iterator[tuple[str, ...]]:
    for i, branch in enumerate(branches, 1):
        more = i < len(branches)
        yield (before + (glyphs.fork if more else glyphs.last) + branch.label, *branch.columns)
        yield from _rows(branch.below, glyphs, before + (glyphs.down if more else glyphs.blank))


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align rows in columns; a row of one cell is a heading and does not widen a column."""
    cells = [[escape_unprintable(cell) for cell in row] for row in rows]
    columns = zip_longest(*(row for row in cells if len(row) > 1), fillvalue="")
    widths = [max(map(len, column)) for column in columns]
    return [_line(row, widths if len(row) > 1 else [0]) for row in cells]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()


def make_csv_line(cells: Sequence[str]) -> str:
    """Return a line of CSV with its end: each row is one line, and no cell is a formula."""
    out = io.StringIO()
    plain = (f"'{each}" if each.startswith(_FORMULA) else each for each in cells)
    csv.writer(out, lineterminator="\n").writerow(map(escape_unprintable, plain))
    return out.getvalue()


def escape_unprintable(text: str) -> str:
    """Escape characters that could control the terminal."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]
