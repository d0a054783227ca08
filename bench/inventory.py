"""Measure how long 10,000 slices of 8 GPUs take to become an Inventory, and the memory they keep.

The same run measures `json.loads` of the same bytes. Each candidate runs in a process
of its own, which reports how much its resident memory grows, without the bytes themselves;
times are the best of several rounds, and the spread of the others is the noise.
"""

import gc
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path

from bench._scale import scaled
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.slices import read_slices

SLICES = scaled(10_000, 50)
DEVICES = 8
ROUNDS = scaled(3, 1)
MIB = 1 << 20


def device(node: int, minor: int) -> dict[str, object]:
    """Shape one GPU as NVIDIA's driver publishes an H100."""
    bus = (0x0F, 0x2D, 0x44, 0x5B, 0x89, 0xA8, 0xC0, 0xD8)[minor % 8]
    return {
        "name": f"gpu-{minor}",
        "attributes": {
            "addressingMode": {"string": "HMM"},
            "architecture": {"string": "Hopper"},
            "brand": {"string": "Nvidia"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "cudaDriverVersion": {"version": "13.0.0"},
            "driverVersion": {"version": "580.95.5"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "resource.kubernetes.io/numaNode": {"int": minor // 4},
            "resource.kubernetes.io/pciBusID": {"string": f"0000:{bus:02x}:00.0"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{bus - 2:02x}"},
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{node:08x}-0000-4000-8000-{minor:012x}"},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
    }


def slice_(node: int) -> dict[str, object]:
    """Shape one node's slice as the API server lists it, managed fields taken out."""
    name = f"node-{node:05}"
    return {
        "metadata": {
            "name": f"00000-gpu.nvidia.com-{name}-{node:05x}",
            "generateName": f"00000-gpu.nvidia.com-{name}-",
            "uid": f"{node:08x}-0000-4000-8000-000000000000",
            "resourceVersion": f"{100_000 + node}",
            "generation": 1,
            "creationTimestamp": "2026-11-20T08:00:00Z",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": name, "uid": f"{node:08x}-1"},
            ],
        },
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [device(node, minor) for minor in range(DEVICES)],
        },
    }


def document(slices: int) -> bytes:
    """Write the list that a cluster of so many nodes would answer."""
    items = ",".join(json.dumps(slice_(node), separators=(",", ":")) for node in range(slices))
    head = '{"kind":"ResourceSliceList","apiVersion":"resource.k8s.io/v1","metadata":{},"items":['
    return f"{head}{items}]}}".encode()


def as_inventory(data: bytes) -> object:
    """Read and index the slices."""
    read = read_slices(data)
    if read.findings:
        raise SystemExit(f"the generated slices do not read: {read.findings[0]}")
    inventory = build_inventory(read.objects)
    if len(inventory.pools) != len(read.objects):
        raise SystemExit(f"{len(inventory.pools)} pools of {len(read.objects)} slices")
    return inventory


def as_dicts(data: bytes) -> object:
    """Do what any Python program would do first."""
    return json.loads(data)


CANDIDATES: dict[str, Callable[[bytes], object]] = {
    "Inventory": as_inventory,
    "json.loads": as_dicts,
}


def resident() -> float:
    """Give the resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def measure(name: str, slices: int) -> tuple[float, float]:
    """Give the seconds a candidate takes and the MiB it then holds, in this fresh process."""
    data = document(slices)
    gc.collect()
    before = resident()
    start = time.perf_counter()
    kept = CANDIDATES[name](data)
    seconds = time.perf_counter() - start
    gc.collect()
    held = resident() - before
    del kept
    return seconds, held


def run(slices: int = SLICES) -> None:
    """Print a row for each candidate, and the ratio between them."""
    fresh = multiprocessing.get_context("spawn")
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in CANDIDATES}
    for _ in range(ROUNDS):
        for name in CANDIDATES:
            with fresh.Pool(1) as pool:
                rounds[name].append(pool.apply(measure, (name, slices)))
    size = len(document(slices)) / MIB
    print(f"{slices} slices of {DEVICES} devices, {size:.0f} MiB of JSON, best of {ROUNDS} rounds")
    print(f"{'':12} {'seconds':>8} {'noise':>6} {'MiB kept':>9} {'noise':>6}")
    best = {}
    for name, measured in rounds.items():
        times, sizes = zip(*measured, strict=True)
        best[name] = min(times), min(sizes)
        noise = [max(column) / min(column) - 1 for column in (times, sizes)]
        row = f"{best[name][0]:8.2f} {noise[0]:6.0%} {best[name][1]:9.0f} {noise[1]:6.0%}"
        print(f"{name:12} {row}")
    (seconds, held), (plain_seconds, plain_held) = best["Inventory"], best["json.loads"]
    ratio = f"{seconds / plain_seconds:.2f} of the time, {held / plain_held:.2f} of the memory"
    print(f"Inventory takes {ratio} of json.loads; target: under 1.50 s and 350 MiB")
