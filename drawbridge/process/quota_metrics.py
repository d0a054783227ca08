"""The metrics of device quotas, which the allocator has.

The administrator decides how many quotas there are, and tenants in how many namespaces they have
devices, so the number of lines has a bound.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from drawbridge.ledger.quota_use import QuotaLine

MAX_LINES: Final = 1000


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
    for line in islice(lines, MAX_LINES):
        values = [line.quota, line.namespace, line.key.device_class, line.key.amount]
        limit.add_metric(values, line.limit.as_approximate_float())
        used.add_metric(values, line.used.as_approximate_float())
    yield from (limit, used)
