"""Reads the commands of docs/installing.md. Pure but for the file."""

import re
from collections.abc import Iterator
from pathlib import Path


def read_commands(page: Path, architecture: str) -> Iterator[str]:
    """Yield the commands of the blocks `console release`, for an architecture."""
    text = page.read_text("utf-8").replace("linux/amd64", f"linux/{architecture}")
    for block in re.findall(r"```console release\n(.*?)```", text, re.DOTALL):
        joined = block.replace("\\\n> ", "")
        for line in joined.splitlines():
            if line.startswith("$ "):
                yield line[2:]
