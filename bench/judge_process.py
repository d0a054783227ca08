"""Measures how long `drawbridge serve judge` takes until it is ready, and its memory.

The API server of the tests, in this process, streams the objects over plain HTTP.
"""

import asyncio
import json
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

from bench._process import cpu_seconds, peak_mebibytes
from bench._scale import scaled
from bench.allocator import DRA, make, make_class, make_facts
from bench.inventory import DEVICES, slice_
from bench.solver import GPU
from tests.cluster.fake.api import FakeApi
from tests.process.key_pairs import create_pair, write_pair

SLICES, CLAIMS, TEMPLATES = scaled((10_000, 20_000, 5_000), (20, 40, 10))
NODES: Final = SLICES
SECONDS: Final = 60.0
DERIVE_SECONDS: Final = scaled(10, 0)
Json = dict[str, Any]


def make_claim(number: int) -> Json:
    """Return an allocated claim."""
    node, device = f"node-{number % NODES:05}", number // NODES
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": node, "device": f"gpu-{device}"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": f"pod-{number}", "uid": f"{number}"}],
    }
    made = make("ResourceClaim", f"pod-{number}-gpu-abcde", spec=make_spec(), namespace="team")
    return {**made, "status": status}


def make_spec() -> Json:
    """Return the spec of a claim for one GPU."""
    expression = 'device.attributes["gpu.nvidia.com"].productName.lowerAscii().contains("a100")'
    exactly = {
        "deviceClassName": "gpu.nvidia.com",
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": expression}}],
    }
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def make_server() -> FakeApi:
    """Return a server with everything that is judged."""
    server = FakeApi()
    server.load({"apiVersion": DRA, "kind": "ResourceSlice", **slice_(i)} for i in range(SLICES))
    server.load([make_class(GPU)])
    server.load(make("Node", f"node-{i:05}") for i in range(NODES))
    server.load(map(make_claim, range(CLAIMS)))
    spec = {"spec": make_spec()}
    server.load(
        make("ResourceClaimTemplate", f"t-{i}", namespace="team", spec=spec)
        for i in range(TEMPLATES)
    )
    server.load((make("Namespace", "team"), make_facts()))
    return server


async def measure() -> None:
    """Start the process, and print when it is ready and its largest resident memory."""
    with tempfile.TemporaryDirectory() as folder:
        async with make_server() as server:
            await _measure(Path(folder), server)


async def _measure(folder: Path, server: FakeApi) -> None:
    access = server.kubeconfig(folder / "kubeconfig")
    certificate, key = write_pair(folder, create_pair())
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "cli.main", "serve", "judge", "--namespace=drawbridge-system"),
        *(f"--tls-cert={certificate}", f"--tls-key={key}"),
        f"--kubeconfig={access}",
        *(f"--{each}=127.0.0.1:0" for each in ("listen", "health", "metrics")),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        await _wait_ready(process)
        elapsed = time.perf_counter() - started
        print(f"ready after {elapsed:.1f} s, {cpu_seconds(process.pid):.1f} s of CPU time")
        await asyncio.sleep(DERIVE_SECONDS)  # the world is derived meanwhile
        print(f"{cpu_seconds(process.pid):.1f} s of CPU time after {DERIVE_SECONDS} more seconds")
        print(f"{peak_mebibytes(process.pid):.0f} MiB of memory at most")
    finally:
        process.kill()
        await process.communicate()


async def _wait_ready(process: asyncio.subprocess.Process) -> None:
    if process.stderr is None:
        raise RuntimeError("standard error is not a pipe")
    async with asyncio.timeout(SECONDS):
        while True:
            line = json.loads(await process.stderr.readline())
            if line["msg"] == "listening" and line["name"] == "health":
                break
        url = f"http://{line['address']}/readyz"
        while not await asyncio.to_thread(_is_ready, url):  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.05)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=30) as response:  # noqa: S310  # loopback
            return bool(response.status == 200)
    except urllib.error.HTTPError:
        return False


def run() -> None:
    """Print the time until the process is ready, and its memory."""
    print(f"{SLICES} slices of {DEVICES} devices, {CLAIMS} claims, {TEMPLATES} templates")
    asyncio.run(measure())
