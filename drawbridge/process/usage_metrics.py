"""The metrics of who holds devices, which the leading controller has.

Tenants decide how many owners, claims and pods there are, so each metric has a bound: what is
beyond it is summed up as other, or left out and counted.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

DEVICE_LABELS: Final = (
    "namespace",
    "pod",
    "container",
    "claim",
    "owner",
    "class",
    "node",
    "driver",
    "pool",
    "device",
    "uuid",
    "shared",
    "share",
    "extended",
)


class AccountUse(NamedTuple):
    """Devices, or devices multiplied by seconds, of an account; `owner` is empty in sums."""

    namespace: str
    class_name: str
    owner: str
    devices: float
    unknown: float = 0.0


class Usage(NamedTuple):
    """What accounts hold now, what namespaces used of each class, and the devices that are held.

    A device has its labels and the fraction that is held. `left_out` counts those beyond the bound.
    """

    held: Sequence[AccountUse] = ()
    used: Sequence[AccountUse] = ()
    devices: Sequence[tuple[tuple[str, ...], float]] = ()
    left_out: int = 0


class UsageStatistics(Protocol):
    """What claims hold now, and what they used since this process leads."""

    async def read(self) -> Usage:
        """Return it; others run meanwhile."""


class UsageCollector(Collector):
    """Reads at scrape time who holds devices: `prepare` reads, `collect` has the result."""

    def __init__(self, statistics: UsageStatistics) -> None:
        self._statistics = statistics
        self._usage = Usage()
        self._reading = asyncio.Lock()

    async def prepare(self) -> None:
        """Read who holds devices now."""
        async with self._reading:
            self._usage = await self._statistics.read()

    def collect(self) -> Iterator[Metric]:
        """Return what is held and what was used."""
        held = GaugeMetricFamily(
            "drawbridge_held_devices",
            "Devices that claims hold now, by namespace, class and root owner. A share counts as"
            " its fraction.",
            labels=["namespace", "class", "owner"],
        )
        for each in self._usage.held:
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
        for amount in self._usage.used:
            used.add_metric([amount.namespace, amount.class_name], amount.devices)
            unknown.add_metric([amount.namespace, amount.class_name], amount.unknown)
        yield from (held, used, unknown, *self._collect_devices())

    def _collect_devices(self) -> Iterator[Metric]:
        devices = GaugeMetricFamily(
            "drawbridge_device_held",
            "The fraction of a device that a claim holds: 1, or less for a share.",
            labels=DEVICE_LABELS,
        )
        for labels, fraction in self._usage.devices:
            devices.add_metric(labels, fraction)
        yield devices
        yield GaugeMetricFamily(
            "drawbridge_devices_left_out",
            "Held devices without a series in drawbridge_device_held, because there are too many.",
            self._usage.left_out,
        )
