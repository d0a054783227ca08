"""Renders the list of decisions, `docs/decisions/README.md`."""

import re
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent.parent / "docs" / "decisions"
_TITLE: Final = re.compile(r"# (\d{4}): (.+)")
_HEAD: Final = """\
# Decisions

Decisions that had alternatives, and that a reader of today's code needs: what was decided, why, and
what was not taken. The others are in the history: `git log --diff-filter=D -- docs/decisions`.

| number | decision |
|---|---|
"""


def render_page() -> str:
    """Return the page: each decision with its number and its title."""
    rows = (_render_row(file) for file in sorted(FOLDER.glob("[0-9]*.md")))
    return _HEAD + "".join(rows)


def _render_row(file: Path) -> str:
    title = _TITLE.fullmatch(file.read_text("utf-8").partition("\n")[0])
    if title is None:
        raise ValueError(f"{file}: the first line is not `# NUMBER: TITLE`")
    return f"| [{title[1]}]({file.name}) | {title[2].replace('|', '&#124;')} |\n"
