"""Writes the generated pages of docs/, the schema of the bridge protocol and the Helm chart.

With --check, reports outdated files and writes nothing.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import allocator.api.openapi
import allocator.scheduler.protocol
import drawbridge.config.schema
import drawbridge.dra.rules
from tools import (
    chart,
    commands_page,
    decisions_page,
    findings_page,
    joint_page,
    migrating,
    mistakes_page,
    rbac_page,
    terminal,
)

DOCS = Path(__file__).parent.parent / "docs"
SCHEMA = DOCS.parent / "bridge" / "protocol" / "v1.schema.json"
PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands_page.render_page,
    "decisions/README.md": decisions_page.render_page,
    "findings.md": findings_page.render_list,
    "configuration.md": drawbridge.config.schema.render_page,
    "joint.md": joint_page.build_page,
    "migrating.md": migrating.render_page,
    "mistakes.md": mistakes_page.render_page,
    "rbac.md": rbac_page.render_page,
    "rules.md": drawbridge.dra.rules.render_page,
    "terminal.svg": terminal.render_picture,
}


def generated_files() -> dict[Path, Callable[[], str]]:
    """Return all generated files, each with the function that renders it."""
    return {
        **{DOCS / name: page for name, page in PAGES.items()},
        SCHEMA: allocator.scheduler.protocol.render_schema,
        DOCS / "openapi.json": allocator.api.openapi.render_openapi,
        **chart.render_all(),
    }


def main() -> int:
    """Write or compare every page; 1 if a page is out of date."""
    stale = 0
    for path, render in generated_files().items():
        text = render()
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is out of date; run `make docs`")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
