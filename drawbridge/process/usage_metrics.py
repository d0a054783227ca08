"""The metrics of who holds devices, which the leading controller has.

Tenants decide how many owners, claims and pods there are, so each metric has a bound: what is
beyond it is summed up as other, or left out and counted.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

DEVICE_LABELS: Final = (
    "namespace",
    "pod",
    "claim",
    "owner",
    "class",
    "node",
    "driver",
    "pool",
    "device",
    "uuid",
    "shared",
    "extended",
)


class AccountUse(NamedTuple):
    """Devices, or devices multiplied by seconds, of an account; `owner` is empty in sums."""

    namespace: str
    class_name: str
    owner: str
    devices: float
    unknown: float = 0.0


class UsageStatistics(Protocol):
    """What claims hold now, and what they used since this process leads."""

    def held(self) -> Iterable[AccountUse]:
        """Return what accounts hold now."""

    def used(self) -> Iterable[AccountUse]:
        """Return what namespaces used of each class."""

    def devices(self) -> Iterable[tuple[tuple[str, ...], float]]:
        """Return the labels and the fraction of each device that is held."""

    def left_out(self) -> int:
        """Return how many devices `devices` leaves out."""


class UsageCollector(Collector):
    """Reads at scrape time who holds devices."""

    def __init__(self, usage: UsageStatistics) -> None:
        self._usage = usage

    def collect(self) -> Iterator[Metric]:
        """Return what is held and what was used."""
        held = GaugeMetricFamily(
            "drawbridge_held_devices",
            "Devices that claims hold now, by namespace, class and root owner. A share counts as"
            " its fraction.",
            labels=["namespace", "class", "owner"],
        )
        for each in self._usage.held():
            held.add_metric([each.namespace, each.class_name, each.owner], each.devices)
        used = CounterMetricFamily(
            "drawbridge_device_seconds",
            "Devices multiplied by the seconds that claims held them, as in the books of usage.",
            labels=["namespace", "class"],
        )
        unknown = CounterMetricFamily(
            "drawbridge_unknown_device_seconds",
            "Devices multiplied by the seconds of which it is unknown whether claims held them.",
            labels=["namespace", "class"],
        )
        for each in self._usage.used():
            used.add_metric([each.namespace, each.class_name], each.devices)
            unknown.add_metric([each.namespace, each.class_name], each.unknown)
        yield from (held, used, unknown, *self._collect_devices())

    def _collect_devices(self) -> Iterator[Metric]:
        devices = GaugeMetricFamily(
            "drawbridge_device_held",
            "The fraction of a device that a claim holds: 1, or less for a share.",
            labels=DEVICE_LABELS,
        )
        for labels, fraction in self._usage.devices():
            devices.add_metric(labels, fraction)
        yield devices
        yield GaugeMetricFamily(
            "drawbridge_devices_left_out",
            "Held devices without a series in drawbridge_device_held, because there are too many.",
            self._usage.left_out(),
        )
