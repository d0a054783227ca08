"""The metrics of what is stuck, which the leading controller has."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drawbridge.report.stuck.codes import CODES
from drawbridge.report.stuck.found import Stuck

# Tenants decide how many objects there are. The counts have everything.
MAX_OBJECTS: Final = 100
_LABELS: Final = ("code", "kind", "namespace", "name", "holder")


class StuckCollector(Collector):
    """Reads at scrape time what the controller has found, with the time in Unix seconds.

    `free` returns the number of free devices by driver.
    """

    def __init__(
        self,
        stuck: Callable[[], Sequence[tuple[Stuck, float]]],
        free: Callable[[], Mapping[str, int]],
    ) -> None:
        self._stuck = stuck
        self._free = free

    def collect(self) -> Iterator[Metric]:
        """Return the counts, and the first objects."""
        stuck_objects = self._stuck()
        counts = Counter(stuck.code for stuck, _ in stuck_objects)
        number = GaugeMetricFamily(
            "drawbridge_stuck_objects",
            "Claims, pods, namespaces and slices that do not go on.",
            labels=["code"],
        )
        for code in CODES:
            number.add_metric([code], counts[code])
        since = GaugeMetricFamily(
            "drawbridge_stuck_since_seconds",
            "Since when an object does not go on, in Unix seconds; of the first 100.",
            labels=_LABELS,
        )
        for stuck, at in islice(stuck_objects, MAX_OBJECTS):
            kind, *names = stuck.object.split("/")
            namespace, name = names if len(names) == 2 else ("", names[0])
            since.add_metric([stuck.code, kind, namespace, name, stuck.held_by], at)
        free = GaugeMetricFamily(
            "drawbridge_free_devices",
            "Published devices that no claim holds and no taint keeps, by driver.",
            labels=["driver"],
        )
        for driver, devices in sorted(self._free().items())[:MAX_OBJECTS]:
            free.add_metric([driver], devices)
        yield from (number, since, free)
