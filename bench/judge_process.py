"""Measures how long `drawbridge serve judge` takes until it is ready, and its memory.

The API server of the tests, in this process, streams the objects over plain HTTP.
"""

import asyncio
import json
import os
import re
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

from bench._scale import scaled
from drawbridge.agreement.published_facts import build_data_key
from drawbridge.facts import serialized
from drawbridge.facts.model import Facts
from tests.cluster.fake.api import FakeApi
from tests.process.key_pairs import create_pair, write_pair

SLICES, DEVICES, CLAIMS, TEMPLATES = scaled((10_000, 8, 20_000, 5_000), (20, 8, 40, 10))
NODES: Final = SLICES
SECONDS: Final = 60.0
DERIVE_SECONDS: Final = scaled(10, 0)
Json = dict[str, Any]
_DRA: Final = "resource.k8s.io/v1"


def make_slice(number: int) -> Json:
    """Return the slice of a node with GPUs like those of NVIDIA's driver."""
    node = f"node-{number:05}"
    spec = {
        "driver": "gpu.nvidia.com",
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [make_device(number, each) for each in range(DEVICES)],
    }
    return make("ResourceSlice", f"{node}-gpu", spec=spec)


def make_device(node: int, number: int) -> Json:
    """Return one GPU."""
    texts = {
        "architecture": "Ampere",
        "brand": "Nvidia",
        "productName": "NVIDIA A100-SXM4-80GB",
        "type": "gpu",
        "uuid": f"GPU-{node:08}-{number:04}",
        "resource.kubernetes.io/pcieRoot": f"pci0000:{number:02x}",
    }
    attributes: Json = {name: {"string": text} for name, text in texts.items()}
    attributes["cudaComputeCapability"] = {"version": "8.0.0"}
    attributes["driverVersion"] = {"version": "570.86.15"}
    attributes["index"] = {"int": number}
    capacity = {"memory": {"value": "80Gi"}}
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": capacity}


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


def make(kind: str, name: str, *, namespace: str = "", **fields: object) -> Json:
    """Return an object with the metadata that a server adds."""
    metadata: Json = {"name": name, "uid": f"{kind}-{name}", "resourceVersion": "7"}
    if namespace:
        metadata["namespace"] = namespace
    api_version = _DRA if kind.startswith(("Resource", "Device")) else "v1"
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def make_facts() -> Json:
    """Return the ConfigMap with the facts of an empty cluster."""
    facts = Facts()
    digest = serialized.facts_hash(facts)
    data = {build_data_key(digest): serialized.encode_facts(facts).decode(), "current": digest}
    return make("ConfigMap", "drawbridge-facts", namespace="drawbridge-system", data=data)


def make_server() -> FakeApi:
    """Return a server with everything that is judged."""
    selector = [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]
    server = FakeApi()
    server.load(map(make_slice, range(SLICES)))
    server.load([make("DeviceClass", "gpu.nvidia.com", spec={"selectors": selector})])
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
        print(f"ready after {elapsed:.1f} s, {_read_cpu(process.pid):.1f} s of CPU time")
        await asyncio.sleep(DERIVE_SECONDS)  # the world is derived meanwhile
        print(f"{_read_cpu(process.pid):.1f} s of CPU time after {DERIVE_SECONDS} more seconds")
        print(f"{_read_memory(process.pid):.0f} MiB of memory at most")
    finally:
        process.kill()
        await process.communicate()


def _read_memory(pid: int) -> float:
    """Return the largest resident memory of a process in MiB."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def _read_cpu(pid: int) -> float:
    """Return the CPU time of a process, which other processes of the machine do not delay."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
