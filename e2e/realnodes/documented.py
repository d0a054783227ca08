"""Reads the commands of a page of the documentation, as a person copies them. Pure."""

import re
from collections.abc import Iterator

_HEADING = re.compile(r"^#+ (.*)$")


def commands(page: str, heading: str) -> list[str]:
    """Return the commands of the console blocks below a heading; none if it is not there."""
    found: list[str] = []
    for line in _lines(page, heading, "console"):
        if line.startswith("$ "):
            found.append(line.removeprefix("$ "))
        elif line.startswith("> ") and found:
            found[-1] += f"\n{line.removeprefix('> ')}"
    return found


def _lines(page: str, heading: str, language: str) -> Iterator[str]:
    below, inside, wanted = False, False, False
    for line in page.splitlines():
        if line.startswith("```"):
            inside = not inside
            wanted = inside and line.removeprefix("```").split()[:1] == [language]
        elif inside:
            if below and wanted:
                yield line
        elif title := _HEADING.match(line):
            below = title[1] == heading
