"""Writes the generated pages of docs/, or with --check says which are out of date."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import cli.codes
import config.codes
import config.schema
import documents.codes
import dra.rules
import registration.admission_codes
import registration.codes
import registration.controller_codes
from dra.finding import Code, Codes, page
from tools import joint_page, migrating

DOCS = Path(__file__).parent.parent / "docs"
TABLES = (
    documents.codes.CODES,
    config.codes.CODES,
    *registration.codes.TABLES,
    cli.codes.CODES,
)
PAGES: dict[str, Callable[[], str]] = {
    "findings.md": lambda: page(TABLES),
    "configuration.md": config.schema.page,
    "joint.md": joint_page.page,
    "migrating.md": migrating.page,
    "rules.md": dra.rules.page,
}


def twice(tables: Iterable[Codes]) -> list[str]:
    """Give the names that two codes have: a page and a configuration could not tell them apart.

    One code may be in the tables of two packages, if it is the same object.
    """
    known: dict[str, tuple[str, Code]] = {}
    told = []
    for table in tables:
        for name, code in table.items():
            first, other = known.setdefault(name, (table.package, code))
            if other is not code:
                told.append(f"{name} is a code of {first}, and another one of {table.package}")
    return told


def main() -> int:
    """Write every page, or compare; 1 when a compared page differs, or a name means two things."""
    stale = 0
    for told in twice(TABLES):
        print(told)
        stale = 1
    for name, render in PAGES.items():
        path = DOCS / name
        text = render()
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is out of date; run `make docs`")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
