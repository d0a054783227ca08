"""Measures the solver: many nodes in a changing cluster, and requests that cannot be satisfied.

Half of the devices are allocated. Between two calls one device is allocated or released. The first
call for a request, with empty caches, is shown separately.
"""

import itertools
import random
import statistics
import time
from collections.abc import Iterator
from typing import Any

from bench._scale import scaled
from bench.inventory import device, slice_
from drawbridge.dra.attributes import NUMA_NODE, PCIE_ROOT
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.classes import DeviceClass, read_class
from drawbridge.dra.gates import Gates, gates_of_version
from drawbridge.dra.inventory import Inventory, PoolID, build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.solver.answers import Solution
from drawbridge.solver.memo import Memo
from drawbridge.solver.solve import solve
from drawbridge.solver.world import UNUSED, PoolUse, View, World

NODES, DEVICES, PRODUCTS, CALLS = scaled(500, 30), 8, 30, scaled(200, 4)
GPU, NIC = "gpu.nvidia.com", "dra.net"
LIMIT_MS = 5.0
SIZES = scaled((5, 10, 15, 20, 25, 31), (5, 31))


def nic(node: int, minor: int) -> dict[str, Any]:
    """Make the NIC with the PCIe root of the GPU with the same number."""
    root = device(node, minor)["attributes"]["resource.kubernetes.io/pcieRoot"]  # type: ignore[index]
    return {
        "name": f"nic-{minor}",
        "attributes": {
            "ifName": {"string": f"eth{minor}"},
            "mac": {"string": f"02:00:{node >> 8:02x}:{node & 255:02x}:00:{minor:02x}"},
            "rdma": {"bool": True},
            "numaNode": {"int": minor // 4},
            "resource.kubernetes.io/pcieRoot": root,
        },
    }


def slices(node: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make the two slices of a node: GPUs of one of the products, and NICs."""
    gpus: dict[str, Any] = slice_(node)
    for gpu in gpus["spec"]["devices"]:
        gpu["attributes"]["productName"] = {"string": f"NVIDIA P{node % PRODUCTS}"}
    name = gpus["spec"]["nodeName"]
    nics = {
        "metadata": {"name": f"00000-{NIC}-{name}"},
        "spec": {
            "driver": NIC,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [nic(node, minor) for minor in range(DEVICES)],
        },
    }
    return gpus, nics


def known_gates() -> Gates:
    """Return the feature gates of Kubernetes 1.37."""
    gates = gates_of_version("1.37")
    if not isinstance(gates, Gates):
        raise SystemExit(f"{gates}")
    return gates


def as_slice(plain: dict[str, Any]) -> Slice:
    """Read a slice."""
    decoded = read_slice(plain)
    if not isinstance(decoded, Slice):
        raise SystemExit(f"{decoded}")
    return decoded


def fleet(nodes: int) -> Inventory:
    """Make the inventory of this many nodes."""
    made = (as_slice(each) for node in range(nodes) for each in slices(node))
    return build_inventory(made, gates=known_gates())


def plain_classes() -> list[dict[str, Any]]:
    """Make the two classes, as the API server has them."""
    selectors = {name: f'device.driver == "{name}"' for name in (GPU, NIC)}
    selectors[GPU] += f' && device.attributes["{GPU}"].type == "gpu"'
    return [
        {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": text}}]}}
        for name, text in selectors.items()
    ]


def classes() -> dict[str, DeviceClass]:
    """Make the two classes."""
    read = map(read_class, plain_classes())
    return {each.metadata.name: each for each in read if isinstance(each, DeviceClass)}


def plain_claim(
    requests: dict[str, tuple[str, int]], name: str = "c", **constraint: str
) -> dict[str, Any]:
    """Make a claim: requests by name with class and count, and a constraint on all of them."""
    exact = {
        each: {"deviceClassName": of, "allocationMode": "ExactCount", "count": count}
        for each, (of, count) in requests.items()
    }
    devices = {
        "requests": [{"name": each, "exactly": body} for each, body in exact.items()],
        "constraints": [constraint] * bool(constraint),
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}}


def claim(requests: dict[str, tuple[str, int]], **constraint: str) -> Claim:
    """Make and read a claim."""
    read = read_claim(plain_claim(requests, **constraint))
    if not isinstance(read, Claim):
        raise SystemExit(f"{read}")
    return read


def churn(inventory: Inventory, random_: random.Random) -> Iterator[View]:
    """Yield views without end; each has one allocated device more or less than the previous one."""
    pools = sorted(inventory.pools)
    letter = {GPU: "gpu", NIC: "nic"}
    uses: dict[PoolID, PoolUse] = {}
    for pool in pools:
        held = random_.sample(range(DEVICES), DEVICES // 2)
        uses[pool] = PoolUse(frozenset(f"{letter[pool.driver]}-{i}" for i in held))
    while True:
        yield View(dict(uses))
        pool = random_.choice(pools)
        device = f"{letter[pool.driver]}-{random_.randrange(DEVICES)}"
        dedicated = uses.get(pool, UNUSED).dedicated
        uses[pool] = PoolUse(dedicated ^ {device})


def many_nodes(name: str, asked: Claim) -> None:
    """Time one request on all nodes, first with empty caches and then between changes."""
    world = World(fleet(NODES), classes())
    nodes = [Node(f"node-{i:05}") for i in range(NODES)]
    views = churn(world.inventory, random.Random(1))
    memo = Memo()
    ids = map("share-{}".format, itertools.count()).__next__
    times = []
    placed = 0
    for view in itertools.islice(views, CALLS + 1):
        start = time.perf_counter()
        answers = solve(world, view, [asked], nodes, ids=ids, memo=memo)
        times.append((time.perf_counter() - start) * 1000)
        placed = sum(isinstance(each, Solution) for each in answers.values())
    if not placed:
        raise SystemExit(f"{name}: placed on no node")
    first, *rest = times
    ninety = statistics.quantiles(rest, n=10)[-1]
    row = f"first {first:7.1f} ms, then median {statistics.median(rest):6.2f} ms, p90 {ninety:6.2f}"
    print(f"{name:28} {row} ms ({placed} of {NODES} nodes)")


def infeasible() -> None:
    """Print the times for one device more than exists, and for unsatisfiable constraints."""
    print(
        f"{'devices':>8} {'count':>8} {'requests':>9} {'match':>8} {'distinct':>9}  (ms, best of 5)"
    )
    of_class = classes()
    for size in SIZES:
        plain = slice_(0)
        plain["spec"]["devices"] = [device(0, minor) for minor in range(size)]  # type: ignore[index]
        world = World(build_inventory([as_slice(plain)], gates=known_gates()), of_class)
        many = {f"r{i}": (GPU, 1) for i in range(size)}
        asked = (
            claim({"r": (GPU, size + 1)}),
            claim({**many, "more": (GPU, 1)}),
            claim(many, matchAttribute=PCIE_ROOT),
            claim(many, distinctAttribute=NUMA_NODE),
        )
        row = [min(_once(world, each) for _ in range(5)) for each in asked]
        flag = "" if max(row) < LIMIT_MS else f"  above {LIMIT_MS} ms"
        print(f"{size:>8} {row[0]:8.2f} {row[1]:9.2f} {row[2]:8.2f} {row[3]:9.2f}{flag}")


def _once(world: World, asked: Claim) -> float:
    """Time one request with only compiled expressions cached."""
    memo = Memo()
    node = Node("node-00000")
    solve(world, View(), [claim({"r": (GPU, 1)})], [node], ids=str, memo=memo)
    start = time.perf_counter()
    answer = solve(world, View(), [asked], [node], ids=str, memo=memo)[node.name]
    took = (time.perf_counter() - start) * 1000
    if isinstance(answer, Solution):
        raise SystemExit("a request that cannot be satisfied was")
    return took


def run() -> None:
    """Print all rows."""
    print(f"{NODES} nodes of {DEVICES} GPUs and {DEVICES} NICs, half held, {CALLS} calls")
    many_nodes("one GPU", claim({"gpu": (GPU, 1)}))
    both = claim({"gpu": (GPU, 1), "nic": (NIC, 1)}, matchAttribute=PCIE_ROOT)
    many_nodes("GPU and NIC of one root", both)
    infeasible()
