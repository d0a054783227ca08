"""Reads the commands of a page of the documentation, as a person copies them. Pure."""

import re
from collections.abc import Iterator

_HEADING = re.compile(r"^#+ (.*)$")


def commands(page: str, heading: str) -> list[str]:
    """Return the commands of the console blocks below a heading; none if it is not there."""
    commands: list[str] = []
    for block in blocks(page, heading, "console"):
        for line in block:
            if line.startswith("$ "):
                commands.append(line.removeprefix("$ "))
            elif line.startswith("> ") and commands:
                commands[-1] += f"\n{line.removeprefix('> ')}"
    return commands


def blocks(page: str, heading: str, language: str) -> Iterator[list[str]]:
    """Yield the lines of each block of a language below a heading."""
    below, inside, wanted = False, False, False
    block: list[str] = []
    for line in page.splitlines():
        if line.startswith("```"):
            if inside and wanted:
                yield block
            inside = not inside
            wanted = inside and below and line.removeprefix("```").split()[:1] == [language]
            block = []
        elif inside:
            block.append(line)
        elif title := _HEADING.match(line):
            below = title[1] == heading
