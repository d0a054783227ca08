"""Measures what a change costs the planner, next to making the whole inventory again."""

import itertools
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import msgspec

from bench._scale import scaled
from bench.inventory import DEVICES, document
from bench.solver import GPU, claim, classes, known_gates
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice, read_slices
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.planner import Planner
from drawbridge.solver.answers import Solution

SIZES, ROUNDS, SHORTLIST = scaled((2_000, 5_000), (30,)), scaled(100, 3), 20
ids = map("share-{}".format, itertools.count()).__next__
REQUESTED = (claim({"gpu": (GPU, 1)}),)


def node_name(number: int) -> str:
    """Return the name that the slices of a node have."""
    return f"node-{number:05}"


def started_planner(data: bytes, nodes: int) -> tuple[Planner, tuple[Slice, ...]]:
    """Read the slices, and make a planner that knows them, the nodes and the classes."""
    read = read_slices(data)
    planner = Planner(known_gates())
    for slice_ in read.objects:
        planner.update(slice_)
    for device_class in classes().values():
        planner.update(device_class)
    for number in range(nodes):
        planner.update(Node(node_name(number), {"zone": "a"}))
    return planner, read.objects


def allocated_claim(number: int) -> Claim:
    """Make a claim that holds a device of the node with this number."""
    result = {"request": "gpu", "driver": GPU, "pool": node_name(number), "device": "gpu-0"}
    plain = {
        "metadata": {"name": f"c{number}", "uid": f"u{number}", "resourceVersion": f"{number + 1}"},
        "spec": {"devices": {"requests": []}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }
    claim = read_claim(plain)
    if not isinstance(claim, Claim):
        raise SystemExit(f"{claim}")
    return claim


class Cluster:
    """A planner and a ledger, to which changes are applied one by one."""

    def __init__(self, nodes: int) -> None:
        self.planner, self.slices = started_planner(document(nodes), nodes)
        self.ledger = Ledger()
        self.numbers = itertools.cycle(range(nodes))
        self.claims = [allocated_claim(number) for number in range(nodes)]
        self.shortlist = [node_name(number) for number in range(SHORTLIST)]

    def change_slice(self) -> None:
        """Withdraw a device, or publish it again."""
        number = next(self.numbers)
        before = self.slices[number]
        after = msgspec.structs.replace(before, devices=before.devices[1:])
        if not self.planner.update(after):
            self.planner.update(before)
        self.planner.world()

    def change_node(self) -> None:
        """Label a node."""
        number = next(self.numbers)
        self.planner.update(Node(node_name(number), {"zone": f"{number % 7}"}))
        self.planner.world()

    def observe_claim(self) -> None:
        """Allocate a device."""
        self.ledger.observe(self.claims[next(self.numbers)])
        self.ledger.view()

    def decide(self, nodes: Iterable[str]) -> None:
        """Decide for these nodes."""
        answers = self.planner.solve_nodes(self.ledger.view(), REQUESTED, nodes, ids=ids)
        check_solved(answers)


def check_solved(answers: Mapping[str, object]) -> None:
    """Fail if a node has no solution; each has free devices."""
    if not answers or not all(isinstance(answer, Solution) for answer in answers.values()):
        raise SystemExit("a node with free devices has no solution")


def once(action: Callable[[], object]) -> float:
    """Time an action in milliseconds."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def median_and_p90(action: Callable[[], object], before: Callable[[], object]) -> list[float]:
    """Time an action many times, each time after another one that is not timed."""
    times = []
    for _ in range(ROUNDS):
        before()
        times.append(once(action))
    return [statistics.median(times), statistics.quantiles(times, n=10)[-1]]


def changes(nodes: int) -> None:
    """Print the rows of a cluster with this many nodes."""
    cluster = Cluster(nodes)
    slices, gates = cluster.slices, known_gates()
    cluster.planner.world()
    rebuild = min(once(lambda: build_inventory(slices, gates=gates)) for _ in range(5))
    first = once(lambda: cluster.decide(cluster.planner.nodes))
    cluster.decide(cluster.shortlist)
    print(
        f"{nodes} nodes of {DEVICES} devices: the inventory of all slices takes {rebuild:.1f} ms,"
    )
    print(f"the first decision over all nodes {first:.0f} ms")
    print(f"{'':44} {'median ms':>9} {'p90 ms':>8} {'of rebuild':>11}")
    nothing: Callable[[], object] = tuple
    every = partial(cluster.decide, cluster.planner.nodes)
    some = partial(cluster.decide, cluster.shortlist)
    rows: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "one slice changed": (cluster.change_slice, nothing),
        "one node changed": (cluster.change_node, nothing),
        "one claim observed": (cluster.observe_claim, nothing),
        f"decision over {SHORTLIST} nodes, after a claim": (some, cluster.observe_claim),
        f"decision over {SHORTLIST} nodes, after a slice": (some, cluster.change_slice),
        "decision over all nodes, after a claim": (every, cluster.observe_claim),
        "decision over all nodes, after a slice": (every, cluster.change_slice),
        "decision over all nodes, after a node": (every, cluster.change_node),
        "decision over all nodes, nothing changed": (every, nothing),
    }
    for name, (action, before) in rows.items():
        median, ninety = median_and_p90(action, before)
        print(f"{name:44} {median:9.3f} {ninety:8.3f} {median / rebuild:11.4f}")


def run() -> None:
    """Print all rows."""
    for nodes in SIZES:
        changes(nodes)
        print()
