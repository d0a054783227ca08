"""Writes the generated pages of docs/, the schema of the bridge protocol and the Helm chart.

With --check, reports outdated files and writes nothing.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import allocator.api.openapi
import allocator.scheduler.protocol
import drawbridge.config.schema
from drawbridge.dra.rules import rules_schema
from tools import (
    allocator_page,
    beside_page,
    chart,
    commands_page,
    decisions_page,
    migrating,
    placing_page,
    rbac_page,
    terminal,
)

DOCS = Path(__file__).parent.parent / "docs"
SCHEMA = DOCS.parent / "bridge" / "protocol" / "v1.schema.json"
PAGES: dict[str, Callable[[], str]] = {
    "beside.md": beside_page.render_page,
    "commands.md": commands_page.render_page,
    "dialects.md": migrating.render_dialects,
    "decisions/README.md": decisions_page.render_page,
    "configuration.md": drawbridge.config.schema.render_page,
    "migrating.md": migrating.render_steps,
    "placing.md": placing_page.render_page,
    "rbac.md": rbac_page.render_page,
    "rules.schema.json": lambda: json.dumps(rules_schema(), indent=2) + "\n",
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
    for path, render in (*generated_files().items(), (allocator_page.PAGE, allocator_page.render)):
        text = render()
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is out of date; run `make docs`")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
