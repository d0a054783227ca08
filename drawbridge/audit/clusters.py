"""Compares clusters: one row for each, the worst first. A cluster that does not answer is a row."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from drawbridge.agreement.scope import Mode
from drawbridge.audit.model import Audit, AuditPart, Fate
from drawbridge.dra.counted import count_noun
from drawbridge.report.tables import align_columns

_HEADER: Final = (
    "CLUSTER", "KUBERNETES", "RELEASE", "MODE", "MIGRATED", "STUCK", "REFUSED", "WAITING",
    "CONFIGURATION",
)  # fmt: skip
UNKNOWN: Final = "-"


class ClusterRow(AuditPart, frozen=True):
    """What one cluster says of itself; without an answer, only `error`.

    `modes` counts the namespaces with a mode, `without_plugin` the pods of `pods` that need no
    device plugin, and `waiting` those without node or devices. `configuration` is the hash of what
    is in use, empty if it was not read, and `drift` what differs from most clusters.
    """

    cluster: str
    error: str = ""
    version: str = ""
    release: str = ""
    placement: str = ""
    modes: Mapping[str, int] = {}
    pods: int = 0
    without_plugin: int = 0
    stuck: Mapping[str, int] = {}
    refused: int = 0
    waiting: int = 0
    configuration: str = ""
    drift: tuple[str, ...] = ()


def add_counts(row: ClusterRow, audit: Audit) -> ClusterRow:
    """Return the row of a cluster with what its audit counts."""
    counts = Counter[Fate]()
    for namespace in audit.namespaces:
        counts.update(namespace.pods)
    modes = Counter(e.mode.value for e in audit.namespaces if e.mode is not Mode.OFF)
    return replace(
        row,
        modes=dict(sorted(modes.items())),
        pods=sum(counts.values()),
        without_plugin=sum(number for fate, number in counts.items() if fate.without_plugin),
        stuck=dict(sorted(Counter(each.code for each in audit.stuck).items())),
        refused=sum(len(each.refusals) for each in audit.namespaces),
    )


def rank_clusters(rows: Iterable[ClusterRow]) -> tuple[ClusterRow, ...]:
    """Return the rows with their drift: those without an answer first, then by what is wrong."""
    rows = [*rows]
    usual = {field: _most_common(map(read, rows)) for field, read in _COMPARED.items()}
    told = [_with_drift(each, usual) for each in rows]
    return tuple(sorted(told, key=_badness))


def _badness(row: ClusterRow) -> tuple[object, ...]:
    stuck = sum(row.stuck.values())
    left = row.pods - row.without_plugin
    wrong = (-stuck, -row.refused, -row.waiting, -len(row.drift), -left)
    return (not row.error, *wrong, row.cluster)


_COMPARED: Final[Mapping[str, Callable[[ClusterRow], str]]] = {
    "configuration": lambda row: row.configuration,
    "release": lambda row: row.release,
    "placement": lambda row: row.placement,
}


def _most_common(values: Iterable[str]) -> str:
    counts = Counter(filter(None, values))
    return max(counts, key=lambda each: (counts[each], each)) if counts else ""


def _with_drift(row: ClusterRow, usual: Mapping[str, str]) -> ClusterRow:
    drift = tuple(
        f"{field} {value}, not {usual[field]}"
        for field, read in _COMPARED.items()
        if (value := read(row)) and value != usual[field]
    )
    return replace(row, drift=drift)


def write_clusters(rows: Sequence[ClusterRow]) -> Iterator[str]:
    """Yield the table, and under it why clusters have no answer, and what differs."""
    yield from align_columns([_HEADER, *map(_cells, rows)])
    for row in rows:
        if row.error:
            yield f"{row.cluster}: {row.error}"
        for code, number in row.stuck.items():
            yield f"{row.cluster}: {count_noun(number, 'object')} stuck [{code}]"
        yield from (f"{row.cluster}: {each}" for each in row.drift)


def _cells(row: ClusterRow) -> tuple[str, ...]:
    if row.error:
        return (row.cluster, "no answer", *[UNKNOWN] * (len(_HEADER) - 2))
    modes = ", ".join(f"{number:,} {mode}" for mode, number in row.modes.items())
    share = f" ({100 * row.without_plugin // row.pods} %)" if row.pods else ""
    return (
        row.cluster,
        row.version or UNKNOWN,
        row.release or UNKNOWN,
        modes or "off",
        f"{row.without_plugin:,} of {row.pods:,}{share}",
        f"{sum(row.stuck.values()):,}",
        f"{row.refused:,}",
        f"{row.waiting:,}",
        f"{row.configuration or UNKNOWN}{' differs' if row.drift else ''}",
    )
