"""Measures what strategies cost, how much they allocate, and who waits with them.

Part `decisions` measures how long the allocator decides about a pod, beside first-fit.

Each node has eight GPUs that claims can share, some of them in use, and other CPU left than most
others, so that few nodes are equal. A decision is one prefilter for twenty nodes and one reserve,
in CPU time of this process. *First* is the slowest of the first decisions, which look at nodes that
were never looked at; *change* is the decision after a pod without claims started on a node. These
decisions follow each other at once. *Idle* is the median where the allocator has time in between,
in which it judges the nodes for the next ones. With *NICs*, each node has four on the PCIe roots of
its GPUs, and each claim asks for a part of a NIC on the root of its GPU; the allocator has learned
before what pods take.

Parts `fragmentation`, `mixes`, `departures`, `nics` and `goodput` play traces, as their modules
say.
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from allocator.state.caches import without_unused_parts
from bench import _departures, _fragmentation, _goodput, _gpu_and_nic
from bench._scale import scaled
from drawbridge.cluster.store import pause_garbage_collection
from drawbridge.dra.attributes import PCIE_ROOT
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import parse
from drawbridge.dra.slices import Slice
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.process.collection import RebuildPause
from tests.allocator.clusters import Cluster, Plain, as_slice, claim, gpu_class, pod_fields

SIZES: Final = scaled((500, 5_000), (40,))
STRATEGIES: Final = (None, "packed", "topology-aware", "fgd", "usable")
WITH_NICS: Final = ((None, True), ("usable", True))
DECISIONS: Final = scaled(200, 12)
MAX_NODES: Final = 20
# With so many turns between decisions, the allocator has learned which NICs pods take.
LEARNING: Final = 32
# In hundredths of the memory of a GPU, as the tasks of the published trace.
SHARES: Final = (100, 100, 100, 81, 47, 32, 65, 23)
# In hundredths of a NIC, as the tasks of the trace with NICs.
OF_NICS: Final = (25, 25, 25, 25, 25, 25, 50, 75)


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


class Asked(NamedTuple):
    """What a claim asks for, in hundredths of the memory of a GPU and of a NIC; 0 for no NIC."""

    gpu: int
    nic: int = 0

    def claim(self, name: str, results: Sequence[Plain] = ()) -> Plain:
        """Return a claim, which is held with these devices."""
        requests = [_request("gpu", "memory", f"{self.gpu}Gi")]
        requests += [_request("nic", "bandwidth", f"{self.nic}")] * bool(self.nic)
        allocated = {"devices": {"results": [*results]}} if results else None
        consumers = (f"pod-{name}",) if results else ()
        plain = claim(name, requests=requests, allocation=allocated, pods=consumers)
        if self.nic:
            plain["spec"]["devices"]["constraints"] = [{"matchAttribute": PCIE_ROOT}]
        return plain


def _request(device: str, capacity: str, amount: str) -> Plain:
    exactly = {"deviceClassName": device, "capacity": {"requests": {capacity: amount}}}
    return {"name": device, "exactly": exactly}


def _draw(drawn: random.Random, *, nics: bool) -> Asked:
    return Asked(drawn.choice(SHARES), drawn.choice(OF_NICS) if nics else 0)


def _devices(node: str, kind: str, count: int, capacity: Plain) -> Slice:
    """Return the slice of a node's GPUs or NICs; each PCIe root has two GPUs and a NIC."""
    devices = [
        {
            "name": f"{kind}-{number}", "allowMultipleAllocations": True, "capacity": capacity,
            "attributes": {PCIE_ROOT: {"string": f"pci0000:{4 * number // count:02x}"}},
        }
        for number in range(count)
    ]  # fmt: skip
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": f"{kind}.example.com", "nodeName": node, "pool": pool, "devices": devices}
    return as_slice({"metadata": {"name": f"{node}-{kind}"}, "spec": spec})


def _result(node: str, kind: str, number: int, share: str, consumed: Plain) -> Plain:
    return {
        "request": kind, "driver": f"{kind}.example.com", "pool": node,
        "device": f"{kind}-{number}", "shareID": share, "consumedCapacity": consumed,
    }  # fmt: skip


def _fill(cluster: Cluster, nodes: int, drawn: random.Random, *, nics: bool) -> None:
    """Start pods on the nodes until about half of the GPUs are in use."""
    for kind in ("gpu", "nic"):
        cluster.add(gpu_class(kind, f'device.driver == "{kind}.example.com"'))
    for number in range(nodes):
        node = _node(number)
        cluster.add(node, _devices(node.name, "gpu", 8, {"memory": {"value": "100Gi"}}))
        if nics:
            cluster.add(_devices(node.name, "nic", 4, {"bandwidth": {"value": "100"}}))
        cluster.add(_busy(node.name, 0, drawn.randrange(1_000, 64_000)))
        left = [100] * 4
        for gpu in drawn.sample(range(8), drawn.randrange(8)):
            asked, share = _draw(drawn, nics=nics), f"{number}-{gpu}"
            nic = gpu // 2
            if asked.nic > left[nic]:
                continue
            left[nic] -= asked.nic
            results = [_result(node.name, "gpu", gpu, share, {"memory": f"{asked.gpu}Gi"})]
            if nics:
                consumed = {"bandwidth": f"{asked.nic}"}
                results.append(_result(node.name, "nic", nic, share, consumed))
            cluster.add_claim(asked.claim(f"held-{share}", results))


def _decide(cluster: Cluster, name: str, asked: Asked) -> tuple[float, str]:
    """Return the milliseconds of CPU of a decision, and the node."""
    plain = asked.claim(name)
    request = cluster.request(name, plain, limit=MAX_NODES)
    started = time.process_time()
    reply = cluster.decisions.prefilter(request, cluster.now)
    reservation = cluster.decisions.reserve(name, reply.fit[0].node, cluster.now)
    spent = 1000 * (time.process_time() - started)
    if not reservation.reserved:
        raise SystemExit(f"a pod got no devices: {reservation.message}")
    return spent, reply.fit[0].node


def measure(nodes: int, strategy: str | None, *, nics: bool) -> str:
    """Return the row of a strategy."""
    drawn = random.Random(1)  # not a secret
    with RebuildPause(pause_garbage_collection)():
        cluster = Cluster(strategy=strategy)
        _fill(cluster, nodes, drawn, nics=nics)
        cluster.state.planner.world()
        cluster.state.ledger.view()
    for _ in range(LEARNING if nics else 0):
        cluster.decisions.strategy.catch_up()
    first, steady, changed, idle = (list[float]() for _ in range(4))
    for number in range(4 * DECISIONS):
        phase = (first, steady, changed, idle)[number // DECISIONS]
        if phase is changed:
            name = f"n{drawn.randrange(nodes):05}"
            cluster.add(_busy(name, number, 500))
        while phase is idle and cluster.decisions.strategy.catch_up():
            pass
        spent, _ = _decide(cluster, f"p{number}", _draw(drawn, nics=nics))
        phase.append(spent)
    medians = map(statistics.median, (steady, changed, idle))
    figures = (max(first), max(steady), *medians)
    return "  ".join(f"{each:8.2f}" for each in figures)


def run() -> None:
    """Print a row for each strategy and size."""
    print("nodes  strategy           first   slowest    median    change      idle   ms of CPU")
    for nodes in SIZES:
        for strategy, nics in (*((each, False) for each in STRATEGIES), *WITH_NICS):
            row = measure(nodes, strategy, nics=nics)
            name = f"{strategy or 'first-fit'}{', NICs' * nics}"
            print(f"{nodes:5}  {name:15}  {row}", flush=True)


PARTS: Final[Mapping[str, Callable[..., None]]] = {
    "decisions": run,
    "fragmentation": _fragmentation.run,
    "mixes": _fragmentation.run_mixes,
    "departures": _departures.run,
    "nics": _gpu_and_nic.run,
    "goodput": _goodput.run,
}
