"""The metrics of what the allocator decides about: device quotas, and conflicts of allocations.

The administrator decides how many quotas there are, and tenants in how many namespaces they have
devices. A conflict is rare, and each ends with one of its claims, but others may write thousands.
So the numbers of lines have bounds.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from drawbridge.ledger.codes import CAPACITY_EXCEEDED, COUNTER_OVERDRAWN, DEVICE_HELD_TWICE
from drawbridge.ledger.conflicts import ConflictLine
from drawbridge.ledger.quota_use import QuotaLine

_MAX_QUOTA_LINES: Final = 1000
_MAX_CONFLICTS: Final = 100
_CONFLICTS: Final = (DEVICE_HELD_TWICE.name, CAPACITY_EXCEEDED.name, COUNTER_OVERDRAWN.name)


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
    """Return the number of conflicts by code, and one line for each, up to a number of lines."""
    existing = tuple(lines)
    current = GaugeMetricFamily(
        "drawbridge_allocator_current_conflicts",
        "Conflicts between allocations that exist now, by the code of the finding.",
        labels=["code"],
    )
    numbers = dict.fromkeys(_CONFLICTS, 0) | Counter(each.code for each in existing)
    for code, number in numbers.items():
        current.add_metric([code], number)
    conflicts = GaugeMetricFamily(
        "drawbridge_allocator_conflicts",
        "Allocations that contradict each other now: the finding, what they contest, and two "
        "of the claims, first that of Drawbridge.",
        labels=["code", "object", "holder", "other"],
    )
    for line in islice(dict.fromkeys(existing), _MAX_CONFLICTS):
        conflicts.add_metric([*line], 1)
    yield from (current, conflicts)
