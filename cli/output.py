"""Prints findings and values in the same form for every command.

A finding in text form begins with `file:line:`, so that editors and CI systems can link to it.
"""

import json
from collections.abc import Iterable
from typing import Final, TextIO

import msgspec

from documents.document import LocatedFinding
from dra.finding import Severity
from report.tables import escape_unprintable

_COLOURS: Final = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.INFO: "36"}


def print_findings(
    located: Iterable[LocatedFinding], stream: TextIO, *, color: bool = False
) -> None:
    """Print each finding on one line, and its remedy on the next."""
    for each in located:
        finding = each.finding
        severity = str(finding.severity)
        if color:
            severity = f"\033[{_COLOURS[finding.severity]}m{severity}\033[0m"
        place = f"{each.source}:{each.line}" if each.line else each.source
        subject = " ".join(part for part in (finding.object, finding.path) if part)
        # A message may quote input. Control characters in it must not reach the terminal.
        prefix = f"{escape_unprintable(place)}: " if place else ""
        text = escape_unprintable(": ".join(part for part in (subject, finding.message) if part))
        stream.write(f"{prefix}{severity}: {text} [{finding.code}]\n")
        stream.write(f"    {escape_unprintable(finding.remedy)}\n")


def print_value(data: object, form: str, stream: TextIO) -> None:
    """Print plain data as `json` or `yaml`."""
    if form == "json":
        stream.write(f"{json.dumps(data, indent=2, ensure_ascii=False)}\n")
        return
    import yaml  # noqa: PLC0415  # takes 15 ms, which JSON output does not need

    yaml.safe_dump(data, stream, sort_keys=False, allow_unicode=True, width=100)


def findings_as_data(located: Iterable[LocatedFinding]) -> dict[str, object]:
    """Convert findings to the form that every command prints in JSON and YAML."""
    return {"findings": [msgspec.to_builtins(each.finding) for each in located]}
