"""Measures what the search for conflicts adds to each change of a claim, on the allocator's loop.

A change of one claim may cost what its own pools have, and nothing of the rest of the cluster, so
500 and 5,000 nodes must take the same time. The worst claims that the API server stores name 32
devices: of 32 pools, of the largest pools of others, or of one device with thousands of shares.
Times are CPU time, so other work of the machine does not count.
"""

import gc
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any

from allocator.state.cluster_state import MAX_SLICES, AllocatorState
from bench._scale import scaled
from bench.changes import node_name
from bench.solver import GPU, NIC, classes, known_gates
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.ledger.conflicts import find_conflicts
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.planner import Planner

SIZES, GPUS, CALLS = scaled((500, 5_000), (20, 40)), 8, scaled(50, 3)
# Results of a claim, devices of a slice, and users of a shared device.
RESULTS, DEVICES, USERS = 32, 128, scaled(5_000, 100)
LIMIT_MS = 50.0
PARTS = tuple((size, start) for size in (1, 2, 4) for start in range(0, 7, size))
NETWORKS = tuple(f"network-{number}" for number in range(RESULTS))


def _slice(driver: str, pool: tuple[str, int], name: str, **spec: object) -> Slice:
    """Make a slice of a pool, which has a name and so many slices."""
    published = {"name": pool[0], "generation": 1, "resourceSliceCount": pool[1]}
    plain: dict[str, Any] = {
        "metadata": {"name": name},
        "spec": {"driver": driver, "pool": published, **spec},
    }
    decoded = read_slice(plain)
    if not isinstance(decoded, Slice):
        raise SystemExit(f"{decoded}")
    return decoded


def _counters(gpu: int, size: int, start: int) -> dict[str, object]:
    counters: dict[str, object] = {"memory": {"value": f"{10 * size}Gi"}}
    counters |= {f"memory-slice-{number}": {"value": "1"} for number in range(start, start + size)}
    return {"counterSet": f"gpu-{gpu}", "counters": counters}


def _gpus(node: str) -> Iterator[Slice]:
    """Yield what a driver publishes of a node whose GPUs can be partitioned."""
    pool = (node, GPUS + 1)
    sets = []
    for gpu in range(GPUS):
        whole = _counters(gpu, 8, 0)
        sets.append({"name": f"gpu-{gpu}", "counters": whole["counters"]})
        parts = [{"name": f"gpu-{gpu}", "consumesCounters": [whole]}]
        parts += [
            {"name": f"gpu-{gpu}-{size}-{start}", "consumesCounters": [_counters(gpu, size, start)]}
            for size, start in PARTS
        ]
        yield _slice(GPU, pool, f"{node}-{gpu}", nodeName=node, devices=parts)
    yield _slice(GPU, pool, f"{node}-counters", nodeName=node, sharedCounters=sets)


def _network(pool: str) -> Iterator[Slice]:
    """Yield a pool of another driver on all nodes, of as many slices as are read."""
    for number in range(MAX_SLICES):
        devices = [
            {"name": f"nic-{number}-{device}", "allowMultipleAllocations": True}
            for device in range(DEVICES)
        ]
        name = f"{pool}-{number}"
        yield _slice(NIC, (pool, MAX_SLICES), name, allNodes=True, devices=devices)


def _claim(name: str, results: list[dict[str, object]], version: int = 1) -> Claim:
    plain: dict[str, Any] = {
        "metadata": {"name": name, "uid": name, "resourceVersion": f"{version}"},
        "spec": {"devices": {"requests": []}},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    claim = read_claim(plain)
    if not isinstance(claim, Claim):
        raise SystemExit(f"{claim}")
    return claim


def _result(pool: str, device: str, driver: str = GPU, **more: object) -> dict[str, object]:
    return {"request": "gpu", "driver": driver, "pool": pool, "device": device, **more}


def _share(number: int) -> dict[str, object]:
    identity = f"{number:08x}-0000-4000-8000-000000000000"
    return _result(NETWORKS[0], "nic-0-0", NIC, shareID=identity)


def started_state(nodes: int) -> AllocatorState:
    """Make a state in which each node's pool is owned, and half of its GPUs are held."""
    state = AllocatorState(
        Planner(known_gates()), Ledger(), lambda pool, _slices, _find: pool.driver == GPU
    )
    for number in range(nodes):
        state.apply(None, Node(node_name(number), {}))
    for device_class in classes().values():
        state.apply(None, device_class)
    for number in range(nodes):
        for one in _gpus(node_name(number)):
            state.apply(None, one)
    for pool in NETWORKS:
        for one in _network(pool):
            state.apply(None, one)
    for number in range(nodes):
        for gpu in range(0, GPUS, 2):
            result = _result(node_name(number), f"gpu-{gpu}")
            state.apply(None, _claim(f"c-{number}-{gpu}", [result]))
    for number in range(USERS):
        state.apply(None, _claim(f"u-{number}", [_share(number)]))
    state.planner.world()
    state.ledger.view()
    return state


def _claims() -> Mapping[str, tuple[Claim, bool]]:
    """Return the claims that change, and whether something is wrong with them."""
    pools = [node_name(number) for number in range(RESULTS)]
    small = [_result(pool, "gpu-1-1-0") for pool in pools]
    under = [_result(pool, "gpu-0-1-0") for pool in pools]
    largest = [_result(pool, "nic-0-1", NIC) for pool in NETWORKS]
    return {
        "one whole GPU": (_claim("whole", [_result(pools[0], "gpu-1")]), False),
        "one whole GPU that is held": (_claim("twice", [_result(pools[0], "gpu-0")]), True),
        "a partition of each of 32 nodes": (_claim("parts", small), False),
        "the same under held GPUs": (_claim("under", under), True),
        "32 devices of large pools of others": (_claim("largest", largest), False),
        f"a share of a device with {USERS} users": (_claim("one", [_share(USERS)]), False),
        "32 shares of it": (_claim("many", [_share(USERS + 1 + n) for n in range(RESULTS)]), False),
    }


def _once(state: AllocatorState, claim: Claim) -> tuple[float, int]:
    start = time.thread_time()
    conflicts = find_conflicts(state.ledger, state.find_pool, claim.metadata.uid)
    count = sum(1 for _ in conflicts)
    return (time.thread_time() - start) * 1000, count


def run() -> None:
    """Print the time of one search for each claim, in clusters of each size."""
    print(f"{'ms for one change of a claim':42} {'nodes':>6} {'median':>8} {'largest':>8} findings")
    for nodes in SIZES:
        state = started_state(nodes)
        gc.freeze()  # as the process does with what it has read
        for what, (claim, wrong) in _claims().items():
            state.apply(None, claim)
            times, counts = zip(*(_once(state, claim) for _ in range(CALLS)), strict=True)
            if bool(counts[0]) != wrong:
                raise SystemExit(f"{what}: {counts[0]} findings")
            median, largest = statistics.median(times), max(times)
            over = f", above {LIMIT_MS:g} ms" if largest > LIMIT_MS else ""
            print(f"{what:42} {nodes:6} {median:8.3f} {largest:8.3f} {counts[0]}{over}")
            state.apply(claim, None)
