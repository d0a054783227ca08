"""Writes the workloads of an audit as CSV, one row for each, for a spreadsheet."""

import csv
import io
from collections.abc import Iterator
from typing import Final

from drawbridge.audit.model import FATE_WORDS, Audit, NamespaceAudit, WorkloadAudit

HEADER: Final = (
    "namespace", "mode", "owner", "outcome", "pods", "running", "wanted", "servedBy", "asks",
    "becomes", "reasons", "codes", "nodeGroups",
)  # fmt: skip
# A spreadsheet reads a cell that begins so as a formula, and tenants write names.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def write_csv(audit: Audit) -> Iterator[str]:
    """Yield the lines, the header first."""
    yield _line(HEADER)
    for namespace in audit.namespaces:
        for entry in namespace.workloads:
            yield _line(_row(namespace, entry))


def _row(namespace: NamespaceAudit, entry: WorkloadAudit) -> tuple[str, ...]:
    return (
        namespace.namespace,
        namespace.mode,
        entry.owner,
        FATE_WORDS[entry.fate],
        f"{entry.pods}",
        f"{entry.running}",
        "" if entry.wanted is None else f"{entry.wanted}",
        entry.served_by,
        "; ".join(entry.asks),
        "; ".join(entry.becomes),
        "; ".join(entry.reasons),
        " ".join(entry.codes),
        "; ".join(f"{name or 'unknown'}: {pods}" for name, pods in entry.nodes.items()),
    )


def _line(cells: tuple[str, ...]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(map(_plain, cells))
    return out.getvalue()


def _plain(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
