"""Counters and histograms without locks, for values that change with every request.

Updates and scrapes run in the same event loop, so no locks are needed. A locked counter of
prometheus_client costs as much as decoding the envelope of a request.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, product

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from drawbridge.process.named_series import OTHER, NamedSeries


class UnlockedCounter(Collector):
    """A counter with labels, of which the last ones can have known `values`.

    A series that begins with 1 hides its first event from `increase()` and `rate()`. So those with
    known values are exposed as 0, as soon as the values of the first labels are known.
    """

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        registry: CollectorRegistry,
        values: Sequence[Sequence[str]] = (),
    ) -> None:
        self._named: NamedSeries[str] | None = None
        self._now: Callable[[], float] = time.monotonic
        self._family = name, text, labels
        self._counts: dict[tuple[str, ...], int] = {}
        self._rest = tuple(product(*values))
        self._first = len(labels) - len(values)
        if not self._first:
            self.declare()
        registry.register(self)

    def declare(self, *first: str) -> None:
        """Expose 0 for these values of the first labels, with all known values of the others."""
        for rest in self._rest:
            self._counts.setdefault((*first, *rest), 0)

    def name_values(self, most: int, now: Callable[[], float] = time.monotonic) -> None:
        """Name so many values of the first label at a time; others are `other`."""
        self._named, self._now = NamedSeries(most, OTHER, self._forget), now

    def add(self, *labels: str) -> None:
        """Increment the counter with these labels."""
        if self._named is not None:
            labels = (self._named.use(labels[0], self._now()), *labels[1:])
        if labels not in self._counts:
            self.declare(*labels[: self._first])
        self._counts[labels] = self._counts.get(labels, 0) + 1

    def _forget(self, value: str) -> None:
        for labels in [each for each in self._counts if each[0] == value]:
            del self._counts[labels]

    def collect(self) -> Iterator[Metric]:
        """Return all counts."""
        name, text, labels = self._family
        family = CounterMetricFamily(name, text, labels=labels)
        for values, count in self._counts.items():
            family.add_metric(values, count)
        yield family


class UnlockedHistogram(Collector):
    """A histogram of durations with one label."""

    def __init__(
        self, name: str, text: str, label: str, bounds: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._family = name, text, (label,)
        self._bounds = bounds
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        registry.register(self)

    def add(self, label: str, seconds: float) -> None:
        """Observe a duration."""
        counts = self._counts.get(label)
        if counts is None:
            counts = self._counts[label] = [0] * (len(self._bounds) + 1)
        counts[bisect_left(self._bounds, seconds)] += 1
        self._sums[label] = self._sums.get(label, 0.0) + seconds

    def collect(self) -> Iterator[Metric]:
        """Return cumulative buckets, as Prometheus expects them."""
        name, text, labels = self._family
        family = HistogramMetricFamily(name, text, labels=labels)
        names = (*(f"{float(each)}" for each in self._bounds), "+Inf")
        for label, counts in self._counts.items():
            buckets = list(zip(names, accumulate(counts), strict=True))
            family.add_metric([label], buckets, self._sums[label])
        yield family
