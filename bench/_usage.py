"""Measures how long the meter of usage and scrapes of it hold the controller's event loop.

40,000 claims in 1,000 namespaces hold a GPU each, of 5,000 nodes; each has an owner of its own. A
task on the same loop measures how late it wakes, as for the reconcilers.
"""

import asyncio
import gc
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from bench._loop import measure_loop
from bench._scale import scaled
from controller.change_books import ChangeCounter
from controller.device_users import read_device_pod
from controller.protocols import Unstructured
from controller.usage_books import UsageReconciler
from controller.usage_observer import UsageObserver
from controller.usage_series import UsageSeries
from controller.watched_objects import PartialObject, WatchedPod
from drawbridge.cluster.store import CachedObject
from drawbridge.dra.claim import Owner
from drawbridge.dra.slices import Slice, slice_reader
from drawbridge.process import metrics
from drawbridge.process.usage_metrics import UsageCollector
from drawbridge.report.stuck.objects import HangingPod
from drawbridge.usage.accounts import UsedAmount
from drawbridge.usage.claims import ClaimHolding, HeldPart
from drawbridge.usage.meter import DELAY
from tests.cluster.memory_store import MemoryStore
from tests.controller.harness import FakeReporter

NODES: Final = scaled(5_000, 20)
NAMESPACES: Final = scaled(1_000, 10)
GPUS: Final = 8
SERIES: Final = 1_000
NOW: Final = 1_790_000_000


class _Cache:
    """Objects by namespace and name, as a cache of the controller."""

    fresh, listed, asked = True, 1, 0

    def __init__(self, objects: Iterable[CachedObject[Any]]) -> None:
        self.objects = {(each.namespace, each.name): each for each in objects}

    def get(self, name: str, namespace: str = "") -> CachedObject[Any] | None:
        return self.objects.get((namespace, name))

    def all(self, namespace: str | None = None) -> list[CachedObject[Any]]:
        return [e for e in self.objects.values() if namespace in (None, e.namespace)]

    @property
    def version(self) -> str:
        """Another one at each look, as of a watch that goes on."""
        self.asked += 1
        return f"{self.asked}"

    def age(self) -> float:
        return 0.0


class _Clock:
    """The time of the API server."""

    now = NOW


class _Pods(MemoryStore[WatchedPod]):
    """The pods of the claims of a namespace, which were scheduled before they were observed."""

    async def list(self, namespace: str = "", *, fields: str = "") -> list[Unstructured]:
        first = int(namespace.removeprefix("team-"))
        return [
            {"metadata": {"name": f"pod-{number}", "uid": f"pod-{number}"}}
            for number in range(first, NODES * GPUS, NAMESPACES)
            if not fields
        ]


def _slices() -> Iterator[CachedObject[Any]]:
    reader = slice_reader()
    for number in range(NODES):
        node = f"node-{number:05}"
        devices = [
            {"name": f"gpu-{n}", "attributes": {"uuid": {"string": f"GPU-{number}-{n}"}}}
            for n in range(GPUS)
        ]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": devices}
        read = reader.read({"metadata": {"name": node}, "spec": spec})
        if not isinstance(read, Slice):
            raise SystemExit(f"{read}")
        yield CachedObject("", node, f"slice-{number}", "1", b"", read)


def _claims() -> Iterator[CachedObject[Any]]:
    for number in range(NODES * GPUS):
        node, gpu = divmod(number, GPUS)
        name, namespace = f"claim-{number}", f"team-{number % NAMESPACES}"
        part = HeldPart("gpu.nvidia.com", "gpu.nvidia.com", f"node-{node:05}", f"gpu-{gpu}")
        owner = Owner("Pod", f"pod-{number}", f"pod-{number}", controller=True)
        holding = ClaimHolding(
            namespace, name, f"uid-{number}", NOW - 60, NOW - 60, (part,), (f"pod-{number}",), owner
        )
        yield CachedObject(namespace, name, f"uid-{number}", "1", b"", holding)


class _Scraper:
    """What the last scrape returned."""

    text = ""

    async def scrape(self) -> None:
        self.text = (await metrics.write_metrics()).decode()

    def samples(self, name: str) -> float:
        """Return the sum of the samples of a metric."""
        lines = [each for each in self.text.splitlines() if re.match(rf"{name}[{{ ]", each)]
        return sum(float(each.rpartition(" ")[2]) for each in lines)


async def _measure_all() -> None:
    claims, slices = _Cache(_claims()), _Cache(_slices())
    pods: MemoryStore[WatchedPod] = MemoryStore(WatchedPod)
    clock = _Clock()
    users: MemoryStore[HangingPod] = MemoryStore(None, decode=read_device_pod)
    observer = UsageObserver(claims, pods, users, lambda: clock.now, lambda: True)
    for each in slices.all():
        observer.slice_changed(None, each)
    books = UsageReconciler(
        observer,
        MemoryStore(WatchedPod),
        "drawbridge-system",
        pods=_Pods(WatchedPod),
        changes=ChangeCounter(users, MemoryStore(PartialObject)),
        reporter=FakeReporter(),
    )
    series = UsageSeries(observer, lambda: books.totals, users, max_devices=SERIES)
    with metrics.registered(UsageCollector(series)):
        await _measure_rows(observer, books, clock, len(claims.objects))


async def _measure_rows(
    observer: UsageObserver, books: UsageReconciler, clock: _Clock, claims: int
) -> None:
    number, scraper = f"{claims:,} claims", _Scraper()

    def devices(amounts: Mapping[Any, UsedAmount]) -> Fraction:
        return sum((each.devices for each in amounts.values()), Fraction())

    def used() -> Fraction:
        return devices(books.totals)

    gc.freeze()  # as the caches of the process are
    await measure_loop(
        f"begin to observe {number}",
        observer.check,
        lambda: devices(observer.meter.held_now()),
        claims,
    )
    await measure_loop(
        f"a scrape with {number}",
        scraper.scrape,
        lambda: scraper.samples("drawbridge_devices_left_out"),
        max(0, claims - SERIES),
    )
    clock.now += 120
    await measure_loop(f"the first book of {number}", books.reconcile, used, claims * (120 - DELAY))
    while observer.waiting:
        await books.reconcile()
    clock.now += 600
    await measure_loop(
        f"the second book, owners of {number}", books.reconcile, used, claims * (720 - DELAY)
    )
    await measure_loop(
        f"a scrape with the book of {number}",
        scraper.scrape,
        lambda: scraper.samples("drawbridge_device_seconds_total"),
        claims * (720 - DELAY),
    )


def run() -> None:
    """Print a row for each part."""
    asyncio.run(_measure_all())
