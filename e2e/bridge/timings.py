"""Compares a pair with the stock scheduler: `python -m e2e.bridge.timings [NODES] [ROUNDS] [PODS]`.

Both schedule the same pods on the same nodes of one control plane, in turns with alternating order,
so that other load of the machine affects both. The nodes have no fence, and no pod of the other
scheduler exists during a turn. The pair has the requests to the API server audited, the stock
scheduler has not.
"""

import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

from e2e.bridge.placement import OWNED, SCHEDULER, Placement
from e2e.controlplane.plane import ControlPlane
from e2e.installed.installation import Installation, Setup
from e2e.nodes.fleet import Fleet
from e2e.runner import print_line
from e2e.scenarios.registry import RIGS
from e2e.timings import PODS, QUESTIONS, STOCK, Run, measure, populate, prepare, until

NODES, ROUNDS = 100, 3


@dataclass(frozen=True)
class Kind:
    """One way to schedule pods: the name of the scheduler, and its processes."""

    name: str
    scheduler: str
    processes: tuple[str, ...]


def install(plane: ControlPlane) -> Kind:
    """Start one pair, and return it when its allocator leads."""
    cluster = Installation(plane, Setup(webhooks=0, controllers=1))
    cluster.install()
    placement = Placement(cluster)
    placement.install(1, unfenced=True)
    (pair,) = placement.pairs
    until(lambda: '"leading":true' in pair.allocator_status())
    processes = (f"{pair.host}-scheduler", pair.allocator.name)
    return Kind("pair", SCHEDULER, processes)


def compare(nodes: int, rounds: int, pods: int, say: Callable[[str], None]) -> None:
    """Measure everything and say it as Markdown."""
    with ControlPlane(RIGS["bridge"]("1.36")) as plane, Fleet(plane.admin, asleep=True) as fleet:
        prepare(plane)
        populate(fleet, range(nodes), OWNED)
        kinds = [Kind("in-tree", "default-scheduler", STOCK[:1]), install(plane)]
        say(f"{pods} pods, {nodes} nodes; load before: {os.getloadavg()[0]:.1f}\n")
        say("| devices | scheduler | pods/s, each run | ratio, each run | CPU s | API CPU s |")
        say("|---|---|---|---|---|---|")
        for question in QUESTIONS:
            runs: dict[str, list[Run]] = {kind.name: [] for kind in kinds}
            for number in range(rounds + 1):
                for kind in kinds if number % 2 else reversed(kinds):
                    processes = (*kind.processes, "kube-apiserver")
                    run = measure(plane, question, processes, kind.scheduler, pods)
                    runs[kind.name] += [run] if number else []  # the first warms up
            for kind in kinds:
                say(row(question, kind, runs[kind.name], runs[kinds[0].name]))
        say(f"\nload after: {os.getloadavg()[0]:.1f}")


def row(question: str, kind: Kind, runs: list[Run], beside: list[Run]) -> str:
    """Return one line of the table, with ratios to the turns beside these."""
    rates = " ".join(f"{run.rate:.0f}" for run in runs)
    ratios = " ".join(
        f"{run.rate / other.rate:.2f}" for run, other in zip(runs, beside, strict=True)
    )
    used = [statistics.median(run.cpu[name] for run in runs) for name in kind.processes]
    cpu = " + ".join(f"{each:.1f}" for each in used)
    server = statistics.median(run.cpu["kube-apiserver"] for run in runs)
    return f"| {question} | {kind.name} | {rates} | {ratios} | {cpu} | {server:.1f} |"


if __name__ == "__main__":
    given = dict(enumerate(map(int, sys.argv[1:])))
    compare(given.get(0, NODES), given.get(1, ROUNDS), given.get(2, PODS), print_line)
