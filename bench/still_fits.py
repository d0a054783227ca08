"""Measures whether all running pods still fit: 5,000 pods on 500 nodes of 8 GPUs, as audit asks.

Most pods have no device. The pods with devices hold nine tenths of them, 1 to 8 each; each node
has the pods of three DaemonSets. In the second row, the nodes have devices for half of them only.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from bench._scale import scaled
from bench.inventory import DEVICES
from bench.solver import GPU, as_slice, classes, known_gates, plain_claim, slices
from drawbridge.dra.claim import Template, template_reader
from drawbridge.dra.decode import Reader
from drawbridge.dra.nodes import node_reader
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.ledger.still_fits import StillFits, still_fits
from drawbridge.solver.deviations import Allocator

NODES: Final = scaled(500, 20)
PODS: Final = scaled(5_000, 200)
WORKLOADS: Final = 60
DAEMONS: Final = 3
SIZES: Final = (1, 1, 2, 4, 8)

T = TypeVar("T")


class OneAllocator:
    """A cluster in which kube-scheduler places all pods, with devices on the first `nodes`."""

    def __init__(self, nodes: int) -> None:
        """Publish the devices of so many nodes."""
        self._planner = Planner(known_gates(), allocator=Allocator.UPSTREAM)
        for number in range(nodes):
            self._planner.update(as_slice(slices(number)[0]))
        for each in classes().values():
            self._planner.update(each)
        for node in cluster().nodes:
            self._planner.update(node)

    def choose(self, pod: Pod) -> Allocator:  # noqa: ARG002  # the same for all
        """Return the only allocator."""
        return Allocator.UPSTREAM

    def planner(self, allocator: Allocator) -> Planner:  # noqa: ARG002  # there is one
        """Return the only planner."""
        return self._planner

    def nodes(self, allocator: Allocator, nodes: ClusterNodes) -> ClusterNodes:  # noqa: ARG002  # all
        """Return all nodes."""
        return nodes


def cluster() -> ClusterNodes:
    """Make the nodes: 96 CPUs, 1Ti of memory and 110 pods each."""
    status = {"allocatable": {"cpu": "95500m", "memory": "1000Gi", "pods": "110"}}
    plain = ({"metadata": {"name": f"node-{n:05}"}, "status": status} for n in range(NODES))
    return ClusterNodes(nodes=tuple(_read(node_reader(), plain)))


def templates() -> Iterator[Template]:
    """Make a template for each number of devices."""
    specs = {size: plain_claim({"gpu": (GPU, size)})["spec"] for size in SIZES}
    plain = (
        {"metadata": {"name": f"gpus-{size}", "namespace": "ml"}, "spec": {"spec": spec}}
        for size, spec in specs.items()
    )
    return _read(template_reader(), plain)


def pods() -> Iterator[Pod]:
    """Make the pods where they run."""
    return _read(pod_reader(), plain_pods())


def _read(reader: Reader[T], plain: Iterable[dict[str, Any]]) -> Iterator[T]:
    for value in plain:
        read = reader.read(value)
        if isinstance(read, tuple):
            raise SystemExit(f"{read}")
        yield read


def plain_pods() -> Iterator[dict[str, Any]]:
    """Fill the devices node by node, then put pods without devices on all nodes in turn."""
    count = 0
    for node in range(NODES):
        for daemon in range(DAEMONS):
            yield _of_daemon_set(daemon, node)
            count += 1
    free = NODES * DEVICES * 9 // 10
    node, left = 0, DEVICES
    while free > 0:
        size = min(SIZES[count % len(SIZES)], left, free)
        size = max(each for each in SIZES if each <= size)
        yield _pod(("ml", f"train-{size}-{count % WORKLOADS}", count), node, size, size)
        count, free, left = count + 1, free - size, left - size
        if not left:
            node, left = node + 1, DEVICES
    while count < PODS:
        workload = count % WORKLOADS
        yield _pod(("web", f"app-{workload}", count), count % NODES, 0, 1 + workload % 4)
        count += 1


def _of_daemon_set(daemon: int, node: int) -> dict[str, Any]:
    pod = _pod(("kube-system", f"agent-{daemon}", node), node, 0, 1)
    field = {"key": "metadata.name", "operator": "In", "values": [f"node-{node:05}"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    pod["spec"]["affinity"] = {"nodeAffinity": required}
    return pod


def _pod(name: tuple[str, str, int], node: int, devices: int, cpus: int) -> dict[str, Any]:
    namespace, workload, number = name
    requests = {"cpu": f"{cpus}", "memory": f"{cpus * 4}Gi"}
    container = {"name": workload, "resources": {"requests": requests}}
    spec: dict[str, Any] = {"nodeName": f"node-{node:05}", "containers": [container]}
    if devices:
        template = f"gpus-{devices}"
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
    metadata = {"name": f"{workload}-{number}", "namespace": namespace}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def run() -> None:
    """Print the times and what fits."""
    start = time.perf_counter()
    running = list(pods())
    print(f"{len(running):,} pods on {NODES} nodes, read in {time.perf_counter() - start:.2f} s")
    for name, nodes in (("devices for all", NODES), ("devices for half", NODES // 2)):
        world = OneAllocator(nodes)
        start, cpu = time.perf_counter(), time.process_time()
        answer = still_fits(running, cluster(), world, (), tuple(templates()))
        took, cpu = time.perf_counter() - start, time.process_time() - cpu
        _check(answer, fits=nodes == NODES)
        refused = len(answer.in_place.refused), len(answer.packed.refused)
        row = f"{refused[0]:,} refused in place, {refused[1]:,} packed"
        print(f"{name:20} {took:6.2f} s, {cpu:5.2f} s of CPU; {row}")


def _check(answer: StillFits, *, fits: bool) -> None:
    refused = answer.in_place.refused, answer.packed.refused
    if fits and any(refused):
        raise SystemExit(f"pods do not fit: {msgspec.json.encode(refused)[:1000]!r}")
    if not fits and not all(refused):
        raise SystemExit("pods fit without devices")
