"""Collects the pages of the site: the Markdown files of the repository, at the same paths.

So each relative link is right on the site where it is right in the repository. What a page links to
besides pages becomes a file of the site.
"""

import html
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
INDEX: Final = Path(__file__).parent / "index.md"
_DIAGRAM: Final = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_DECISIONS: Final = "docs/decisions/README.md"
# The navigation shows decisions below their list.
_LISTED: Final = "\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n"
# Pages of folders that no reader of the site looks for.
_LEFT_OUT: Final = (".", "tests/", "tools/")
_KEPT: Final = "tools/release/"
_FILES: Final = ("examples", "Dockerfile", "LICENSE", "bridge/protocol", "docs")


def collect(target: Path) -> None:
    """Write the pages and the files that they link to into an empty folder."""
    for name in _tracked():
        source, copy = ROOT / name, target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            listed = _LISTED if name == _DECISIONS else ""
            copy.write_text(convert(source.read_text("utf-8")) + listed, "utf-8")
        else:
            shutil.copy(source, copy)
    (target / "index.md").write_text(INDEX.read_text("utf-8"), "utf-8")


def _tracked() -> Iterator[str]:
    """Yield the files of the repository that belong to the site."""
    words = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
    done = subprocess.run(  # noqa: S603  # constant
        words, cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in done.stdout.splitlines():
        is_left_out = name.startswith(_LEFT_OUT) and not name.startswith(_KEPT)
        is_page = name.endswith(".md") and not is_left_out
        is_file = any(name == file or name.startswith(f"{file}/") for file in _FILES)
        if (is_page or is_file) and (ROOT / name).is_file():
            yield name


def convert(page: str) -> str:
    """Return a page as Sphinx reads it: diagrams are drawn in the browser."""
    return _DIAGRAM.sub(_to_markup, page)


def _to_markup(diagram: re.Match[str]) -> str:
    text = html.escape(diagram[1], quote=False)
    return f'```{{raw}} html\n<pre class="mermaid">\n{text}</pre>\n```'
