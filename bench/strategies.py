"""Measures what strategies cost, how much they allocate, and who waits with them.

Part `decisions` measures how long the allocator decides about a pod, beside first-fit.

Each node has eight GPUs that claims can share, some of them in use, and other CPU left than most
others, so that few nodes are equal. A decision is one prefilter for twenty nodes and one reserve,
in CPU time of this process. *First* is the slowest of the first decisions, which look at nodes that
were never looked at; *change* is the decision after a pod without claims started on a node. These
decisions follow each other at once. *Idle* is the median where the allocator has time in between,
in which it judges the nodes for the next ones.

Parts `fragmentation` and `departures` play a trace; their modules say how.
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from allocator.state.caches import without_unused_parts
from bench import _departures, _fragmentation
from bench._scale import scaled
from drawbridge.cluster.store import pause_garbage_collection
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import parse
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.process.collection import RebuildPause
from tests.allocator.clusters import Cluster, Plain, claim, gpu_slice, pod_fields

SIZES: Final = scaled((500, 5_000), (40,))
STRATEGIES: Final = (None, "packed", "topology-aware", "fgd", "usable")
DECISIONS: Final = scaled(200, 12)
MAX_NODES: Final = 20
# In hundredths of the memory of a GPU, as the tasks of the published trace.
SHARES: Final = (100, 100, 100, 81, 47, 32, 65, 23)


def _node(number: int) -> Node:
    allocatable = {"cpu": parse("96"), "memory": parse("512Gi")}
    return Node(f"n{number:05}", {}, allocatable=allocatable)


def _busy(node: str, number: int, cpu: int) -> Pod:
    fields = pod_fields(f"busy-{node}-{number}", node=node, phase="Running")
    requests = {"cpu": f"{cpu}m", "memory": f"{cpu}Mi"}
    fields["spec"]["containers"] = [{"name": "c", "resources": {"requests": requests}}]
    read = pod_reader().read(fields)
    assert isinstance(read, Pod)  # noqa: S101  # made here
    return without_unused_parts(read)


def _asked(name: str, share: int, allocated: Plain | None = None) -> Plain:
    exactly: dict[str, Any] = {"deviceClassName": "gpu"}
    exactly["capacity"] = {"requests": {"memory": f"{share}Gi"}}
    consumers = (f"pod-{name}",) if allocated else ()
    return claim(
        name, requests=[{"name": "r", "exactly": exactly}], allocation=allocated, pods=consumers
    )


def _fill(cluster: Cluster, nodes: int, drawn: random.Random) -> None:
    """Start pods on the nodes until about half of the GPUs are in use."""
    for number in range(nodes):
        node = _node(number)
        capacity = {"memory": {"value": "100Gi"}}
        cluster.add(node, gpu_slice(node.name, 8, allowMultipleAllocations=True, capacity=capacity))
        cluster.add(_busy(node.name, 0, drawn.randrange(1_000, 64_000)))
        for gpu in drawn.sample(range(8), drawn.randrange(8)):
            share = drawn.choice(SHARES)
            result = {
                "request": "r", "driver": "gpu.example.com", "pool": node.name,
                "device": f"gpu-{gpu}", "shareID": f"{number}-{gpu}",
                "consumedCapacity": {"memory": f"{share}Gi"},
            }  # fmt: skip
            allocated = {"devices": {"results": [result]}}
            cluster.add_claim(_asked(f"held-{number}-{gpu}", share, allocated))


def _decide(cluster: Cluster, name: str, share: int) -> tuple[float, str]:
    """Return the milliseconds of CPU of a decision, and the node."""
    plain = _asked(name, share)
    request = cluster.request(name, plain, limit=MAX_NODES)
    started = time.process_time()
    reply = cluster.decisions.prefilter(request, cluster.now)
    reservation = cluster.decisions.reserve(name, reply.fit[0].node, cluster.now)
    spent = 1000 * (time.process_time() - started)
    if not reservation.reserved:
        raise SystemExit(f"a pod got no devices: {reservation.message}")
    return spent, reply.fit[0].node


def measure(nodes: int, strategy: str | None) -> str:
    """Return the row of a strategy."""
    drawn = random.Random(1)  # not a secret
    with RebuildPause(pause_garbage_collection)():
        cluster = Cluster(strategy=strategy)
        _fill(cluster, nodes, drawn)
        cluster.state.planner.world()
        cluster.state.ledger.view()
    first, steady, changed, idle = (list[float]() for _ in range(4))
    for number in range(4 * DECISIONS):
        phase = (first, steady, changed, idle)[number // DECISIONS]
        if phase is changed:
            name = f"n{drawn.randrange(nodes):05}"
            cluster.add(_busy(name, number, 500))
        while phase is idle and cluster.decisions.strategy.catch_up():
            pass
        spent, _ = _decide(cluster, f"p{number}", drawn.choice(SHARES))
        phase.append(spent)
    medians = map(statistics.median, (steady, changed, idle))
    figures = (max(first), max(steady), *medians)
    return "  ".join(f"{each:8.2f}" for each in figures)


def run() -> None:
    """Print a row for each strategy and size."""
    print("nodes  strategy           first   slowest    median    change      idle   ms of CPU")
    for nodes in SIZES:
        for strategy in STRATEGIES:
            row = measure(nodes, strategy)
            print(f"{nodes:5}  {strategy or 'first-fit':14}  {row}", flush=True)


PARTS: Final[Mapping[str, Callable[..., None]]] = {
    "decisions": run,
    "fragmentation": _fragmentation.run,
    "departures": _departures.run,
}
