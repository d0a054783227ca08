"""How findings and values are printed, the same for every command.

A finding in text begins with `file:line:`, as editors and CI like it. Knows nothing of where
findings come from.
"""

import json
from collections.abc import Iterable
from typing import Final, TextIO

import msgspec

from documents.document import Located
from dra.finding import Severity
from report.tables import printable

_COLOURS: Final = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.INFO: "36"}


def findings(located: Iterable[Located], stream: TextIO, *, color: bool = False) -> None:
    """Print each finding on one line, and its remedy on the next."""
    for each in located:
        finding = each.finding
        severity = str(finding.severity)
        if color:
            severity = f"\033[{_COLOURS[finding.severity]}m{severity}\033[0m"
        place = f"{each.source}:{each.line}" if each.line else each.source
        about = " ".join(part for part in (finding.object, finding.path) if part)
        # What is said may quote what was read: nothing in it may steer the terminal.
        before = f"{printable(place)}: " if place else ""
        after = printable(": ".join(part for part in (about, finding.message) if part))
        stream.write(f"{before}{severity}: {after} [{finding.code}]\n")
        stream.write(f"    {printable(finding.remedy)}\n")


def value(plain: object, form: str, stream: TextIO) -> None:
    """Print a plain value as `json` or `yaml`."""
    if form == "json":
        stream.write(f"{json.dumps(plain, indent=2, ensure_ascii=False)}\n")
        return
    import yaml  # noqa: PLC0415  # 15 ms that JSON need not pay

    yaml.safe_dump(plain, stream, sort_keys=False, allow_unicode=True, width=100)


def plain(located: Iterable[Located]) -> dict[str, object]:
    """The findings as every command prints them in JSON and YAML."""
    return {"findings": [msgspec.to_builtins(each.finding) for each in located]}
