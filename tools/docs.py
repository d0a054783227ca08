"""Writes the generated pages of docs/, the schema of the bridge protocol and the Helm chart.

With --check, reports outdated files and writes nothing.
"""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import allocator.api.openapi
import allocator.scheduler.protocol
import drawbridge.config.schema
import drawbridge.dra.rules
from cli.terminal.code_tables import TABLES
from drawbridge.finding import Code, Codes, render_page
from tools import chart, commands_page, joint_page, migrating, rbac_page, terminal

DOCS = Path(__file__).parent.parent / "docs"
SCHEMA = DOCS.parent / "bridge" / "protocol" / "v1.schema.json"
PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands_page.render_page,
    "findings.md": lambda: render_page(TABLES),
    "configuration.md": drawbridge.config.schema.render_page,
    "joint.md": joint_page.build_page,
    "migrating.md": migrating.render_page,
    "rbac.md": rbac_page.render_page,
    "rules.md": drawbridge.dra.rules.render_page,
    "terminal.svg": terminal.render_picture,
}


def duplicate_names(tables: Iterable[Codes]) -> list[str]:
    """Report names that belong to two different codes.

    Two packages can list the same code object.
    """
    known: dict[str, tuple[str, Code]] = {}
    messages = []
    for table in tables:
        for name, code in table.items():
            first, other = known.setdefault(name, (table.package, code))
            if other is not code:
                messages.append(
                    f"{name} is a code of {first} and a different code of {table.package}"
                )
    return messages


def main() -> int:
    """Write or compare every page; 1 if a page is out of date or a code name is not unique."""
    stale = 0
    for message in duplicate_names(TABLES):
        print(message)
        stale = 1
    for path, render in {
        **{DOCS / name: page for name, page in PAGES.items()},
        SCHEMA: allocator.scheduler.protocol.render_schema,
        DOCS / "openapi.json": allocator.api.openapi.render_openapi,
        **chart.render_all(),
    }.items():
        text = render()
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is out of date; run `make docs`")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
