"""Measures the CPU time that a pod costs the allocator, from prefilter to bind.

The CPU time is measured in batches, because other processes of the machine make it longer: they
empty the caches of the processor. With the variable BASELINE, the path of another checkout, its
allocator gets a batch in turns with ours, and the ratio is the median of the batches.
"""

import asyncio
import contextlib
import statistics
import time
from pathlib import Path
from typing import Final

from bench._allocator import KINDS, Process, Scheduler, allocator, make_server, requests_of
from bench._process import TREES, cpu_seconds
from bench._scale import scaled

SIZES: Final = scaled((100, 500, 5_000), (30,))
BATCH, WARM_BATCHES, BATCHES = scaled(50, 5), scaled(2, 1), scaled(10, 2)


class _Turns:
    """The batches of the allocator of a tree."""

    def __init__(self, process: Process, scheduler: Scheduler) -> None:
        self._process, self._scheduler = process, scheduler
        self._count = 0
        self.costs: list[float] = []
        self.seconds = 0.0

    @property
    def latencies(self) -> list[float]:
        """The milliseconds of each prefilter."""
        return self._scheduler.latencies

    async def take(self) -> None:
        """Schedule a batch of pods."""
        self._count += 1
        used, began = cpu_seconds(self._process.pid), time.perf_counter()
        await self._scheduler.schedule([f"pod-{self._count}-{each}" for each in range(BATCH)])
        self.seconds += time.perf_counter() - began
        self.costs.append((cpu_seconds(self._process.pid) - used) * 1000 / BATCH)

    def forget(self) -> None:
        """Forget what was measured."""
        self.costs.clear()
        self.latencies.clear()
        self.seconds = 0.0


async def _start(stack: contextlib.AsyncExitStack, tree: Path, nodes: int, kind: str) -> _Turns:
    server = make_server(nodes)
    process = await stack.enter_async_context(allocator(server, tree=tree))
    await process.wait_until_leading()
    return _Turns(process, Scheduler(server, process, requests_of(kind)))


async def _measure_pods(nodes: int, kind: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        turns = {name: await _start(stack, tree, nodes, kind) for name, tree in TREES.items()}
        for number in range(WARM_BATCHES + BATCHES):
            for batches in turns.values():
                if number == WARM_BATCHES:
                    batches.forget()
                await batches.take()
    ours = turns["ours"].costs
    for name, batches in turns.items():
        ratio = statistics.median(a / b for a, b in zip(ours, batches.costs, strict=True))
        _print(f"{nodes:5} {kind:28} {name:8}", batches, ratio)


def _print(name: str, turns: _Turns, ratio: float) -> None:
    costs, latencies = turns.costs, turns.latencies
    median = statistics.median(costs)
    print(
        f"{name} {min(costs):6.2f} {median:6.2f} {1000 / median:10.0f}"
        f" {BATCHES * BATCH / turns.seconds:7.0f} {statistics.median(latencies):9.2f}"
        f" {statistics.quantiles(latencies, n=100)[-1]:7.2f} {ratio:9.2f}",
        flush=True,
    )


def run() -> None:
    """Print all rows."""
    print(f"{BATCHES * BATCH} pods with a claim each; CPU time is that of the allocator")
    print(f"{'':43} {'CPU ms per pod':>13} {'pods per':>10} {'pods':>7} {'prefilter ms':>17}")
    columns = f"{'best':>6} {'median':>6} {'CPU second':>10} {'per s':>7} {'median':>9} {'p99':>7}"
    print(f"{'nodes':>5} {'':37} {columns} {'ours/this':>9}")
    for nodes in SIZES:
        for kind in KINDS:
            asyncio.run(_measure_pods(nodes, kind))
