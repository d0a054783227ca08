"""Measures 5,000 nodes with 40,000 GPUs and as many NICs: start, changes, binds, a storm, an hour.

The starts, the binds and the storm are measured with twice as many nodes as well, to show what
grows faster than a cluster.

Each process runs alone beside an API server in memory, which is in the process of this bench: on a
machine with two processors it gets one of them. Rates are therefore those of both together, and the
CPU time of the measured process says what it could do. On a busy machine seconds are longer, so
that CPU time is compared with the target of a start. With the variable BASELINE, the path of
another checkout, starts and binds are measured with its processes as well, one after the other.
"""

import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp

from allocator.scheduler.protocol import HEADER, VERSION_TEXT
from bench._allocator import (
    CONFIGURATION,
    FENCE,
    NAMESPACE,
    SYSTEM,
    Process,
    Scheduler,
    allocator,
    make_server,
    requests_of,
)
from bench._process import (
    ROOT,
    TREES,
    cpu_seconds,
    last_lines,
    peak_mebibytes,
    resident_mebibytes,
)
from bench._scale import scaled
from bench._slices import DEVICES
from drawbridge.report.page.compose import MAX_NODES
from e2e.controlplane.processes import free_port
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.configuration import offer
from tests.process.key_pairs import create_pair, write_pair

NODES: Final = scaled(5_000, 30)
SIZES: Final = (NODES, 2 * NODES)
READY_SECONDS, READY_MIB = 30.0, 1536.0
SLICE_CHANGES, SLICE_MS = scaled(1_000, 5), 5.0
BIND_SECONDS, BINDS_PER_SECOND = scaled(60.0, 0.2), 300.0
# Of the pods that are bound; one alone reaches its share of the memory with 10,000 nodes.
NAMESPACES: Final = 8
LOST_NODES, GAP_MS = scaled(2_000, 5), 1_000.0
# An hour in which a hundred pods come and go each minute.
CHURN, SAMPLES = scaled(6_000, 20), scaled(10, 2)
BATCH, BATCHES = scaled((50, 10), (5, 1))
SIMULATED: Final = scaled(20, 3)
LIMIT_SECONDS = 600.0
# The CPU time in half a second of a process that has nothing to do but answer fifty calls a second.
QUIET_SECONDS = 0.15
GPUS: Final = "one GPU"
Ready = Callable[[], Awaitable[bool]]


def _say(what: str, figure: str, *, kept: bool) -> None:
    print(f"{what:58} {figure}{'' if kept else '   MISSED'}", flush=True)


# --- start ---


@contextlib.asynccontextmanager
async def _process(tree: Path, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli.main", *words),
        cwd=tree,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            running.kill()
        await running.communicate()


async def _wait(
    running: asyncio.subprocess.Process, ready: Ready, began: float
) -> tuple[float, float, float]:
    """Wait until a process is ready; return the seconds, and CPU time and memory once it rests."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while not await ready():
            if running.returncode is not None:
                said = last_lines((await running.communicate())[1])
                raise SystemExit(f"the process ended with {running.returncode}: {said}")
            await asyncio.sleep(0.05)
    seconds = time.perf_counter() - began
    # What is derived later counts as well.
    used = await _settle(running)
    return seconds, used, peak_mebibytes(running.pid)


def _say_start(name: str, seconds: float, cpu: float, mebibytes: float) -> None:
    figure = f"{seconds:6.1f} s, {cpu:5.1f} s of CPU time, {mebibytes:5.0f} MiB at most"
    _say(f"{name} is ready", figure, kept=cpu < READY_SECONDS and mebibytes < READY_MIB)


async def _first_line(
    running: asyncio.subprocess.Process, stream: asyncio.StreamReader | None, *parts: str
) -> str:
    """Return the first line of one of a process's streams that has these parts."""
    if stream is None:
        raise RuntimeError("the stream is not a pipe")
    others = b""
    async with asyncio.timeout(LIMIT_SECONDS):
        while line := await stream.readline():
            if all(each in line.decode() for each in parts):
                return line.decode()
            others += line
        said = last_lines(others + ((await running.communicate())[1] or b""))
    raise SystemExit(f"the process ended without {parts}: {said}")


def _fetch(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=60) as response:  # noqa: S310  # loopback
            return str(response.read().decode())
    except urllib.error.URLError:
        return ""


async def measure_start(nodes: int) -> None:
    """Print what each process takes until it can be used."""
    for name, tree in TREES.items():
        print(f"{nodes:,} nodes, {name}:")
        await _start_allocator(tree, nodes)
        for measure in (_start_controller, _start_judge, _start_page):
            server = make_server(nodes)
            server.put(offer(CONFIGURATION))
            with tempfile.TemporaryDirectory() as folder:
                async with server:
                    access = f"--kubeconfig={server.kubeconfig(Path(folder) / 'kubeconfig')}"
                    await measure(tree, server, Path(folder), access)


async def _start_allocator(tree: Path, nodes: int) -> None:
    """The allocator can be used when it leads; its first search has empty caches."""
    server = make_server(nodes)
    async with allocator(server, tree=tree) as process:
        began = time.perf_counter()
        await process.wait_until_leading()
        seconds = time.perf_counter() - began
        _say_start("allocator", seconds, cpu_seconds(process.pid), peak_mebibytes(process.pid))
        scheduler = Scheduler(server, process, requests_of(GPUS))
        request, connection = scheduler.create("first"), await process.connect()
        began = time.perf_counter()
        reply = await scheduler.prefilter(connection, request)
        print(f"  the first prefilter takes {(time.perf_counter() - began) * 1000:.0f} ms")
        if not reply["fit"]:  # on a busy machine, a search finds fewer than it is asked for
            raise SystemExit("a pod fits nowhere in an idle cluster")


async def _start_controller(tree: Path, server: FakeApi, _: Path, access: str) -> None:
    """The controller can be used when it has published the facts."""
    server.remove("configmaps", "drawbridge-facts", SYSTEM)

    async def published() -> bool:
        return server.get("configmaps", "drawbridge-facts", SYSTEM) is not None

    words = ("serve", "controller", f"--namespace={SYSTEM}", access, "--config-map")
    ports = ("--health=127.0.0.1:0", "--metrics=127.0.0.1:0")
    began = time.perf_counter()
    async with _process(tree, *words, *ports) as running:
        _say_start("controller, the facts", *await _wait(running, published, began))


async def _start_judge(tree: Path, _: FakeApi, folder: Path, access: str) -> None:
    certificate, key = write_pair(folder, create_pair())
    words = ("serve", "judge", f"--namespace={SYSTEM}", access, f"--tls-cert={certificate}")
    ports = tuple(f"--{each}=127.0.0.1:0" for each in ("listen", "health", "metrics"))
    began = time.perf_counter()
    async with _process(tree, *words, f"--tls-key={key}", *ports) as running:
        line = json.loads(await _first_line(running, running.stderr, "listening", '"health"'))

        async def ready() -> bool:
            return bool(await asyncio.to_thread(_fetch, f"http://{line['address']}/readyz"))

        _say_start("judge", *await _wait(running, ready, began))


async def _start_page(tree: Path, server: FakeApi, _folder: Path, access: str) -> None:
    """The page can be used when it shows its last node with its devices, which are read later."""
    began = time.perf_counter()
    async with _process(tree, "page", access) as running:
        line = await _first_line(running, running.stdout, "http://")
        url = line[line.index("http://") :].split()[0]
        shown = min(len(server.all("nodes")), MAX_NODES)
        last, devices = f"node-{shown - 1:05}", f"{2 * DEVICES} devices"

        async def ready() -> bool:
            return devices in (await asyncio.to_thread(_fetch, url)).partition(last)[2]

        _say_start("page of state", *await _wait(running, ready, began))


# --- changes, binds, a storm, an hour ---


async def _settle(process: Process | asyncio.subprocess.Process) -> float:
    """Wait until the process does little but answer the prober; return its CPU time."""
    used = cpu_seconds(process.pid)
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            await asyncio.sleep(0.5)
            before, used = used, cpu_seconds(process.pid)
            if used - before < QUIET_SECONDS:
                return used


def _rewrite(slice_: Any, number: int) -> Any:  # noqa: ANN401  # JSON
    """Let the driver publish the next generation of a pool, with one attribute changed."""
    spec = slice_["spec"]
    spec["pool"]["generation"] += 1
    spec["devices"][0]["attributes"]["generation"] = {"int": number}
    return slice_


async def measure_changes(server: FakeApi, process: Process) -> None:
    """Print the CPU time of a changed slice in the allocator."""
    before = await _settle(process)
    for number, resource_slice in enumerate(server.all("resourceslices")[:SLICE_CHANGES]):
        server.put(_rewrite(resource_slice, number))
        await asyncio.sleep(0)
    cost = (await _settle(process) - before) * 1000 / SLICE_CHANGES
    _say("a slice changed", f"{cost:6.2f} ms of CPU time", kept=cost < SLICE_MS)


async def measure_binds(server: FakeApi, process: Process) -> None:
    """Print how many pods are bound in a minute, from prefilter to bind, as fast as it goes."""
    scheduler = Scheduler(server, process, requests_of(GPUS), NAMESPACES)
    await scheduler.schedule([f"warm-{number}" for number in range(BATCH)])
    scheduler.latencies.clear()
    used, own = cpu_seconds(process.pid), cpu_seconds(os.getpid())
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < BIND_SECONDS:
        await scheduler.schedule([f"bind-{count + number}" for number in range(BATCH)])
        count += BATCH
    seconds = time.perf_counter() - began
    cpu = cpu_seconds(process.pid) - used
    rate, cost = count / seconds, cpu * 1000 / count
    _say(f"binds a second for {seconds:.0f} s", f"{rate:6.0f}", kept=rate >= BINDS_PER_SECOND)
    rest = (cpu_seconds(os.getpid()) - own) * 1000 / count
    print(f"  {cost:.2f} ms of CPU time a pod, {1000 / cost:.0f} pods a CPU second;", end=" ")
    print(f"API server and bench {rest:.2f} ms a pod;", end=" ")
    slowest = statistics.quantiles(scheduler.latencies, n=100)[-1]
    print(f"prefilter {statistics.median(scheduler.latencies):.1f} ms, p99 {slowest:.1f} ms")


@contextlib.asynccontextmanager
async def _probed(process: Process, what: str) -> AsyncIterator[None]:
    """Print the longest time without an answer to another process."""
    prober = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench._prober", process.socket),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    await _first_line(prober, prober.stdout, "asking")
    yield
    longest, count = (await prober.communicate(b""))[0].decode().split()
    _say(what, f"{longest:>6} ms, {count} answers", kept=float(longest) < GAP_MS)


async def measure_storm(server: FakeApi, process: Process) -> None:
    """Print the longest gap in answers while all slices are rewritten and nodes are lost."""
    scheduler = Scheduler(server, process, requests_of(GPUS))
    requests = requests_of(GPUS)
    requests["requests"][0]["exactly"]["count"] = DEVICES + 1
    waiting = Scheduler(server, process, requests)
    connection = await process.connect()
    if (await waiting.prefilter(connection, waiting.create("never")))["fit"]:
        raise SystemExit("a pod fits that asks for more than a node has")
    woken: list[str] = []
    listening = asyncio.create_task(_listen(process, woken))
    before = await _settle(process)
    woken.clear()
    slices = server.all("resourceslices")
    async with _probed(process, f"longest gap while {len(slices):,} slices are rewritten"):
        for number, resource_slice in enumerate(slices):
            server.put(_rewrite(resource_slice, number))
            if not number % 20:
                await asyncio.sleep(0)
        after = await _settle(process)
    print(f"  {after - before:.1f} s of CPU time of the allocator")
    async with _probed(process, f"longest gap while {LOST_NODES:,} nodes are lost"):
        for number in range(LOST_NODES):
            server.remove("nodes", f"node-{number:05}")
            if not number % 20:
                await asyncio.sleep(0)
        lost = await _settle(process)
    print(f"  {lost - after:.1f} s of CPU time of the allocator")
    listening.cancel()
    _say("a pod that never fits is woken", f"{len(woken):6} times", kept=not woken)
    reply = await scheduler.prefilter(connection, scheduler.create("after"))
    if not reply["fit"] or min(each["node"] for each in reply["fit"]) < f"node-{LOST_NODES:05}":
        raise SystemExit(f"after the storm: {reply['fit'][:1]}")


async def _listen(process: Process, woken: list[str]) -> None:
    """Note the pods that the allocator wakes."""
    reader, writer = await asyncio.open_unix_connection(process.socket)
    head = f"GET /v1/events HTTP/1.1\r\nHost: allocator\r\n{HEADER}: {VERSION_TEXT}\r\n\r\n"
    writer.write(head.encode())
    while line := await reader.readline():
        if b"uid" in line.lower() or b"activate" in line:
            woken.append(line.decode())


async def measure_hour(server: FakeApi, process: Process) -> None:
    """Print the memory while as many pods come and go as in an hour with a hundred a minute."""
    scheduler = Scheduler(server, process, requests_of(GPUS))
    samples, began = [], time.perf_counter()
    for sample in range(SAMPLES):
        for batch in range(CHURN // SAMPLES // BATCH):
            names = [f"churn-{sample}-{batch}-{number}" for number in range(BATCH)]
            await scheduler.schedule(names)
            for name in names:
                _end(server, name)
            server.requests.clear()
        await _settle(process)
        samples.append(resident_mebibytes(process.pid))
    seconds = time.perf_counter() - began
    half = samples[len(samples) // 2 :]
    text = " ".join(f"{each:.0f}" for each in samples)
    grown = half[-1] - half[0]
    _say(f"memory while {CHURN:,} pods come and go, MiB", text, kept=grown < 0.05 * half[0])
    print(f"  {seconds:.0f} s; the second half adds {grown:.1f} MiB")


def _end(server: FakeApi, name: str) -> None:
    """Delete a pod, and its claim as the controllers of Kubernetes do."""
    server.remove("pods", name, NAMESPACE)
    claim = server.get("resourceclaims", name, NAMESPACE)
    if claim is None:
        raise SystemExit(f"claim {name} is gone")
    del claim["metadata"]["finalizers"]
    claim["status"] = {}
    server.put(claim)
    server.remove("resourceclaims", name, NAMESPACE)


# --- simulations ---


def _simulation() -> dict[str, Any]:
    """Return the body of a simulation of pods with a GPU each."""
    template = {
        "metadata": {"name": "gpu", "namespace": NAMESPACE},
        "spec": {"spec": {"devices": requests_of(GPUS)}},
    }
    spec = {
        "resourceClaims": [{"name": "d", "resourceClaimTemplateName": "gpu"}],
        "tolerations": [{"key": FENCE["key"], "operator": "Exists"}],
    }
    names = (f"p{each}" for each in range(SIMULATED))
    pods = [{"metadata": {"name": each, "namespace": NAMESPACE}, "spec": spec} for each in names]
    return {"pods": pods, "templates": [template]}


async def _simulate(client: aiohttp.ClientSession, taken: list[float]) -> None:
    """Place pods all the time, and check that they are placed."""
    while True:
        began = time.perf_counter()
        async with client.post("/v1/simulate", json=_simulation()) as response:
            reply = await response.json()
        if response.status == 429:
            await asyncio.sleep(float(response.headers["Retry-After"]))
        elif response.status != 200 or not all(each["node"] for each in reply["pods"]):
            raise SystemExit(reply)
        else:
            taken.append((time.perf_counter() - began) * 1000)


async def measure_simulations() -> None:
    """Print how long the scheduler waits while a caller of the API simulates all the time."""
    server, port = make_server(NODES), free_port()
    async with (
        allocator(server, f"--api=127.0.0.1:{port}") as process,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        await process.wait_until_leading()
        scheduler = Scheduler(server, process, requests_of(GPUS))

        async def schedule(name: str) -> None:
            scheduler.latencies.clear()
            for batch in range(BATCHES):
                await scheduler.schedule([f"{name}-{batch}-{each}" for each in range(BATCH)])
            waits = scheduler.latencies
            slowest = statistics.quantiles(waits, n=100)[-1]
            print(f"prefilter {name}: {statistics.median(waits):.1f} ms, p99 {slowest:.1f} ms")

        taken: list[float] = []
        await schedule("without simulations")
        running = asyncio.create_task(_simulate(client, taken))
        await schedule(f"while {SIMULATED} pods are simulated again and again")
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        print(f"  {len(taken)} simulations, {statistics.median(taken or [0]):.0f} ms each")


def _run_part(
    measure: Callable[[FakeApi, Process], Awaitable[None]],
    trees: Mapping[str, Path],
    nodes: int = NODES,
) -> None:
    async def run_in(tree: Path) -> None:
        server = make_server(nodes)
        async with allocator(server, tree=tree) as process:
            await process.wait_until_leading()
            await measure(server, process)
            print(f"  at most {peak_mebibytes(process.pid):.0f} MiB")

    print(f"{nodes:,} nodes of {DEVICES} GPUs and {DEVICES} NICs")
    for name, tree in trees.items():
        if len(trees) > 1:
            print(f"{name}:")
        asyncio.run(run_in(tree))


def _for_sizes(measure: Callable[[int], None]) -> None:
    for nodes in SIZES:
        measure(nodes)


_OURS: Final = {"ours": ROOT}
# Each prints its rows; those that miss their target say so.
PARTS: Final[Mapping[str, Callable[[], None]]] = {
    "start": lambda: _for_sizes(lambda nodes: asyncio.run(measure_start(nodes))),
    "changes": lambda: _run_part(measure_changes, _OURS),
    "binds": lambda: _for_sizes(lambda nodes: _run_part(measure_binds, TREES, nodes)),
    "storm": lambda: _for_sizes(lambda nodes: _run_part(measure_storm, _OURS, nodes)),
    "hour": lambda: _run_part(measure_hour, _OURS),
    "simulations": lambda: asyncio.run(measure_simulations()),
}
