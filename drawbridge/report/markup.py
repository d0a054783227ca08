"""Writes the parts of all pages: text, tables, lists and bars, in HTML without scripts.

Tenants write names, amounts and reasons. `text` is the only way from a value to the page: it cuts,
escapes markup, and shows characters that hide or turn text, such as bidirectional overrides, as
their code. No value becomes a link, an address, a style or the name of an attribute.
"""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import Final

from drawbridge.report.style import STYLE
from drawbridge.report.tables import escape_unprintable

MAX_TEXT: Final = 20_000


def text(value: str, most: int = MAX_TEXT) -> str:
    """Return a value as text of the page, cut to so many characters."""
    cut = value if len(value) <= most else f"{value[:most]}…"
    return escape(escape_unprintable(cut.replace("\n", " ")))


def preformatted(commands: Iterable[str]) -> str:
    """Return what a person types, in full and line by line."""
    lines = (line for each in commands for line in each.split("\n"))
    return "\n".join(text(line, len(line)) for line in lines)


def isolated(value: str, most: int = MAX_TEXT) -> str:
    """Return a value within a sentence, whose direction does not change that of the sentence."""
    return f"<bdi>{text(value, most)}</bdi>"


def document(title: str, body: Iterable[str]) -> Iterable[str]:
    """Yield a page."""
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    yield from body
    yield "</body>\n</html>\n"


def key(colour: str) -> str:
    """Return the square that explains a colour of bars."""
    return f'<span class="key c-{colour}" aria-hidden="true"></span>'


def bar(colours: Iterable[tuple[str, int]]) -> str:
    """Return a bar of colours, each as wide as its number; others say in words what it shows."""
    merged = [
        (colour, sum(number for _, number in run))
        for colour, run in groupby(colours, lambda each: each[0])
    ]
    at, drawn = 0, []
    for colour, number in merged:
        if number > 0:
            drawn.append(f'<rect class="c-{colour}" x="{at}" width="{number}" height="1"/>')
            at += number
    box = f'viewBox="0 0 {max(at, 1)} 1" preserveAspectRatio="none" aria-hidden="true"'
    return f'<svg class="bar" {box}>{"".join(drawn)}</svg>'


def table(
    caption: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    kinds: Sequence[str] = (),
) -> str:
    """Return a table; the first cell of a row is its header. All but the caption is markup."""
    heads = "".join(f'<th scope="col">{each}</th>' for each in header)
    lines = []
    for number, (first, *cells) in enumerate(rows):
        kind = f' class="{kinds[number]}"' if kinds else ""
        others = "".join(f"<td{_number(each)}>{each}</td>" for each in cells)
        lines.append(f'<tr{kind}><th scope="row">{first}</th>{others}</tr>\n')
    name = text(caption)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">\n<table>\n'
        f"<caption>{name}</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n"
        f"{''.join(lines)}</tbody>\n</table>\n</div>\n"
    )


def _number(cell: str) -> str:
    return ' class="number"' if cell.replace(",", "").isdecimal() else ""


def listed(values: Sequence[str]) -> str:
    """Return a list of values; nothing without one."""
    if not values:
        return ""
    return f"<ul>\n{''.join(f'<li>{text(each)}</li>' for each in values)}\n</ul>\n"
