"""The picture at the top of README.md shows what the commands print."""

import re
from html import unescape
from xml.etree import ElementTree as ET

import pytest

from tests.docs.test_commands import ROOT
from tools import terminal

SVG = "{http://www.w3.org/2000/svg}"


def shown() -> list[str]:
    """Return the rows of text in the picture."""
    picture = ET.parse(ROOT / "docs" / "terminal.svg")  # noqa: S314  # our own file
    return ["".join(each.itertext()) for each in picture.iter(f"{SVG}text")]


@pytest.mark.parametrize("command", terminal.COMMANDS)
def test_the_picture_shows_a_command_with_all_of_its_output(command: str) -> None:
    printed = re.sub(r"\033\[\d+m", "", terminal.run(command))
    text = "".join(shown())
    assert f"$ drawbridge {command}{printed.replace(chr(10), '')}" in text


def test_rows_are_as_wide_as_the_terminal() -> None:
    assert max(map(len, shown())) == terminal.COLUMNS


def test_colours_become_spans_and_text_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "run", lambda _: f"a<\033[31merror\033[0m {'x' * 120}\n")
    monkeypatch.setattr(terminal, "COMMANDS", ("help",))
    picture = terminal.render_picture()
    assert 'a&lt;<tspan fill="#ff7b72">error</tspan> xxx' in picture
    rows = re.findall(r"<text[^>]*>(.*)</text>", picture)
    plain = [unescape(re.sub(r"<[^>]*>", "", row)) for row in rows]
    assert [len(row) for row in plain] == [len("$ drawbridge help"), 118, 128 - 118]
