"""Writes the generated pages of docs/, or with --check says which are out of date."""

import sys
from collections.abc import Callable
from pathlib import Path

import allocator.codes
import cli.codes
import config.codes
import config.schema
import controller.codes
import documents.codes
import dra.codes
import facts.codes
import judge.codes
import see.codes
import solver.codes
import translate.codes
import translate.rules
import translate.targets.codes
import translate.verdicts
import webhook.codes
from dra.finding import page
from tools import joint_page, migrating

DOCS = Path(__file__).parent.parent / "docs"
ROOMS = (
    documents.codes.CODES,
    dra.codes.CODES,
    config.codes.CODES,
    judge.codes.CODES,
    solver.codes.CODES,
    allocator.codes.CODES,
    facts.codes.CODES,
    translate.codes.CODES,
    translate.targets.codes.CODES,
    translate.verdicts.CODES,
    webhook.codes.CODES,
    controller.codes.CODES,
    see.codes.CODES,
    cli.codes.CODES,
)
PAGES: dict[str, Callable[[], str]] = {
    "findings.md": lambda: page(ROOMS),
    "configuration.md": config.schema.page,
    "joint.md": joint_page.page,
    "migrating.md": migrating.page,
    "rules.md": translate.rules.page,
}


def main() -> int:
    """Write every page, or compare; 1 when a compared page differs."""
    stale = 0
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
