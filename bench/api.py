"""Measures the API of the allocator: what its calls cost, and whether the scheduler waits for them.

A client sends simulations all the time, while another one schedules pods as `bench.allocator` does.
"""

import asyncio
import contextlib
import socket
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp

from bench._process import peak_mebibytes
from bench._scale import scaled
from bench.allocator import (
    BATCH,
    FENCE,
    NAMESPACE,
    START_NODES,
    Scheduler,
    allocator,
    make_server,
    requests_of,
)
from bench.solver import slices

Json = dict[str, Any]
BATCHES: Final = scaled(10, 1)
CALLS: Final = scaled(20, 2)
PODS: Final = scaled(20, 3)


def simulation(number: int) -> Json:
    """Return the body of a simulation of pods with a GPU each."""
    template = {
        "metadata": {"name": "gpu", "namespace": NAMESPACE},
        "spec": {"spec": {"devices": requests_of("one GPU")}},
    }
    spec = {
        "resourceClaims": [{"name": "d", "resourceClaimTemplateName": "gpu"}],
        "tolerations": [{"key": FENCE["key"], "operator": "Exists"}],
    }
    names = (f"p{each}" for each in range(number))
    pods = [{"metadata": {"name": each, "namespace": NAMESPACE}, "spec": spec} for each in names]
    return {"pods": pods, "templates": [template]}


async def simulate(client: aiohttp.ClientSession, number: int) -> None:
    """Place pods, and check that they are placed."""
    async with client.post("/v1/simulate", json=simulation(number)) as response:
        reply = await response.json()
        if response.status == 429:
            await asyncio.sleep(float(response.headers["Retry-After"]))
        elif response.status != 200 or not all(each["node"] for each in reply["pods"]):
            raise SystemExit(reply)


async def get(client: aiohttp.ClientSession, path: str) -> None:
    """Send a GET request."""
    async with client.get(path) as response:
        if response.status != 200:
            raise SystemExit(await response.text())
        await response.read()


async def measure(name: str, call: Callable[[], Awaitable[None]]) -> None:
    """Print how long calls take."""
    times = []
    for _ in range(CALLS):
        started = time.perf_counter()
        await call()
        times.append((time.perf_counter() - started) * 1000)
    print(f"{name:40} {statistics.median(times):8.1f} {max(times):8.1f}")


def print_latencies(name: str, latencies: list[float]) -> None:
    """Print the latencies of prefilter in milliseconds."""
    p99 = statistics.quantiles(latencies, n=100)[-1]
    print(f"{name:40} {statistics.median(latencies):8.1f} {p99:8.1f} {max(latencies):8.1f}")


async def measure_scheduling(scheduler: Scheduler, client: aiohttp.ClientSession) -> None:
    """Print the latencies of prefilter without and with simulations."""

    async def simulate_always() -> None:
        while True:
            await simulate(client, PODS)

    async def schedule(name: str) -> list[float]:
        scheduler.latencies.clear()
        for batch in range(BATCHES):
            await scheduler.schedule([f"{name}-{batch}-{each}" for each in range(BATCH)])
        return list(scheduler.latencies)

    print(f"\n{'prefilter, milliseconds':40} {'median':>8} {'p99':>8} {'max':>8}")
    await schedule("warm")
    print_latencies("alone", await schedule("alone"))
    running = asyncio.create_task(simulate_always())
    print_latencies("while simulations run", await schedule("beside"))
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def measure_all() -> None:
    """Print all rows."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = make_server(START_NODES)
    async with (
        allocator(server, f"--api=127.0.0.1:{port}") as process,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        await process.wait_until_leading()
        scheduler = Scheduler(server, process, requests_of("one GPU"))
        await measure_scheduling(scheduler, client)
        print(f"\n{'call, milliseconds':40} {'median':>8} {'max':>8}")
        await measure("a page of 500 allocations", lambda: get(client, "/v1/allocations?limit=500"))
        nodes = f"/v1/nodes/{slices(0)[0]['spec']['nodeName']}"
        await measure("the devices of a node", lambda: get(client, nodes))
        await measure("a simulation of one pod", lambda: simulate(client, 1))
        print(f"{peak_mebibytes(process.pid):.0f} MiB of memory at most")


def run() -> None:
    """Print all rows."""
    print(f"{START_NODES} nodes of 8 GPUs and 8 NICs")
    asyncio.run(measure_all())
