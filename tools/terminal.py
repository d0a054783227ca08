"""Draws docs/terminal.svg: a terminal in which a person runs Drawbridge on the sample cluster.

The commands run when the picture is drawn, so it shows what this version prints. Their output
depends on nothing but the files in examples/.
"""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

from cli.main import dispatch
from cli.terminal.streams import Streams

ROOT: Final = Path(__file__).parent.parent
COMMANDS: Final = (
    "translate -f examples/legacy/nvidia.yaml --cluster examples/inventory -o report",
    "translate -f examples/legacy/koordinator.yaml --cluster examples/inventory -o report",
    "check -f examples/check/training.yaml --cluster examples/inventory",
)
COLUMNS: Final = 118
_CHARACTER, _LINE, _MARGIN, _SIZE = 7.8, 18, 14, 13
_BACKGROUND, _TEXT, _PROMPT = "#0d1117", "#c9d1d9", "#7ee787"
# The colours of the escape sequences that the commands print, legible on the background.
_COLOURS: Final = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff"}
_ESCAPE: Final = re.compile(r"\033\[(\d+)m")


def render_picture() -> str:
    """Run the commands, and draw what a terminal shows."""
    lines = [line for command in COMMANDS for line in (*_draw_command(command), "")][:-1]
    width = round(2 * _MARGIN + COLUMNS * _CHARACTER)
    height = 2 * _MARGIN + len(lines) * _LINE
    font = f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{_SIZE}"'
    drawn = "".join(
        f'<text x="{_MARGIN}" y="{_MARGIN + number * _LINE - 4}" xml:space="preserve">{line}'
        "</text>\n"
        for number, line in enumerate(lines, 1)
        if line
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="A terminal with three commands of Drawbridge and their output">\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="{_BACKGROUND}"/>\n'
        f'<g {font} fill="{_TEXT}">\n{drawn}</g>\n</svg>\n'
    )


def _draw_command(command: str) -> Iterator[str]:
    for number, line in enumerate(_wrap(f"$ drawbridge {command}")):
        text = escape(line[2:] if number == 0 else line)
        prompt = f'<tspan fill="{_PROMPT}">$ </tspan>' if number == 0 else ""
        yield f"{prompt}{text}"
    for line in run(command).splitlines():
        yield from map(_draw_line, _wrap(line))


def run(command: str) -> str:
    """Return what a command prints on a terminal with colours."""
    out = io.StringIO()
    with contextlib.chdir(ROOT):
        streams = Streams(io.BytesIO(), out, out, color=True, unicode=True)
        dispatch(shlex.split(command), streams, "drawbridge")
    return out.getvalue()


def _wrap(line: str) -> Iterator[str]:
    """Yield the rows of a line, broken where the terminal ends; escape sequences have no width."""
    row, width = "", 0
    for part in re.split(r"(\033\[\d+m)", line):
        if _ESCAPE.fullmatch(part):
            row += part
            continue
        for character in part:
            if width == COLUMNS:
                yield row
                row, width = "", 0
            row, width = row + character, width + 1
    yield row


def _draw_line(line: str) -> str:
    """Return a row as text with coloured spans; a colour ends with its row."""
    drawn, before = "", None
    for number, part in enumerate(_ESCAPE.split(line)):
        if number % 2:
            before = _COLOURS.get(part)
        elif part:
            text = escape(part)
            drawn += f'<tspan fill="{before}">{text}</tspan>' if before else text
    return drawn
