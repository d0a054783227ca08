"""Writes the workloads of an audit as CSV, one row for each, for a spreadsheet."""

from collections.abc import Iterator
from typing import Final

from drawbridge.audit.model import FATE_WORDS, Audit, NamespaceAudit, WorkloadAudit
from drawbridge.report.tables import make_csv_line

HEADER: Final = (
    "namespace", "mode", "owner", "outcome", "pods", "running", "wanted", "servedBy", "asks",
    "becomes", "reasons", "codes", "nodeGroups",
)  # fmt: skip


def write_csv(audit: Audit) -> Iterator[str]:
    """Yield the lines, the header first."""
    yield make_csv_line(HEADER)
    for namespace in audit.namespaces:
        for entry in namespace.workloads:
            yield make_csv_line(_row(namespace, entry))


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
