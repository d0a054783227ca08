"""Counters for what happens with every request: plain numbers that are read when somebody looks.

Whoever counts and whoever looks share one event loop, so nothing is locked: a locked counter costs
as much as reading the request's envelope. Knows nothing of what is counted.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector


class Tally(Collector):
    """How often something happened, by labels."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], registry: CollectorRegistry
    ) -> None:
        self._family = name, text, labels
        self._counts: dict[tuple[str, ...], int] = {}
        registry.register(self)

    def add(self, *labels: str) -> None:
        """Count one more."""
        self._counts[labels] = self._counts.get(labels, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """Give all counts."""
        name, text, labels = self._family
        family = CounterMetricFamily(name, text, labels=labels)
        for values, count in self._counts.items():
            family.add_metric(values, count)
        yield family


class Times(Collector):
    """How long something took, by a label, in buckets."""

    def __init__(
        self, name: str, text: str, label: str, bounds: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._family = name, text, (label,)
        self._bounds = bounds
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        registry.register(self)

    def add(self, label: str, seconds: float) -> None:
        """Count one more that took so long."""
        counts = self._counts.get(label)
        if counts is None:
            counts = self._counts[label] = [0] * (len(self._bounds) + 1)
        counts[bisect_left(self._bounds, seconds)] += 1
        self._sums[label] = self._sums.get(label, 0.0) + seconds

    def collect(self) -> Iterator[Metric]:
        """Give all buckets, each with those below it as Prometheus wants them."""
        name, text, labels = self._family
        family = HistogramMetricFamily(name, text, labels=labels)
        names = (*(f"{float(each)}" for each in self._bounds), "+Inf")
        for label, counts in self._counts.items():
            buckets = list(zip(names, accumulate(counts), strict=True))
            family.add_metric([label], buckets, self._sums[label])
        yield family
