"""The metrics of what the allocator decides about: device quotas, and conflicts of allocations.

The administrator decides how many quotas there are, and tenants in how many namespaces they have
devices. A conflict is rare, and each ends with one of its claims, but others may write thousands.
So the numbers of lines have bounds.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from drawbridge.ledger.conflicts import ConflictLine
from drawbridge.ledger.quota_use import QuotaLine

_MAX_QUOTA_LINES: Final = 1000
_MAX_CONFLICTS: Final = 100


def collect_quotas(lines: Iterable[QuotaLine]) -> Iterator[Metric]:
    """Return the limit and the use of each total, up to a number of them."""
    labels = ["quota", "namespace", "device_class", "amount"]
    limit, used = (
        GaugeMetricFamily(f"drawbridge_allocator_quota_{name}", text, labels=labels)
        for name, text in (
            ("limit", "A total of a device quota; no namespace: all selected ones together."),
            ("used", "What claims have of a total, reserved and allocated."),
        )
    )
    for line in islice(lines, _MAX_QUOTA_LINES):
        values = [line.quota, line.namespace, line.key.device_class, line.key.amount]
        limit.add_metric(values, line.limit.as_approximate_float())
        used.add_metric(values, line.used.as_approximate_float())
    yield from (limit, used)


def collect_conflicts(lines: Iterable[ConflictLine]) -> Iterator[Metric]:
    """Return one line for each conflict, up to a number of them."""
    conflicts = GaugeMetricFamily(
        "drawbridge_allocator_conflicts",
        "Allocations that contradict each other now: the finding, what they contest, and two "
        "of the claims, first that of Drawbridge.",
        labels=["code", "object", "holder", "other"],
    )
    for line in islice(dict.fromkeys(lines), _MAX_CONFLICTS):
        conflicts.add_metric([*line], 1)
    yield conflicts
