"""The metric of conflicts between allocations, with both claims, which the allocator has.

A conflict is rare, and each ends with one of its claims. Others may write thousands, so the number
of lines has a bound.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from drawbridge.ledger.conflicts import ConflictLine

MAX_LINES: Final = 100


def collect_conflicts(lines: Iterable[ConflictLine]) -> Iterator[Metric]:
    """Return one line for each conflict, up to a number of them."""
    conflicts = GaugeMetricFamily(
        "drawbridge_allocator_conflicts",
        "Allocations that contradict each other now: the finding, what they contest, and two "
        "of the claims, first that of Drawbridge.",
        labels=["code", "object", "holder", "other"],
    )
    for line in islice(dict.fromkeys(lines), MAX_LINES):
        conflicts.add_metric([*line], 1)
    yield conflicts
