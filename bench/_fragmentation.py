"""Measures how much of the devices strategies allocate: bench `strategies.fragmentation [FILE]`.

As in the paper that published the trace and fragmentation gradient descent: tasks arrive one after
the other until 130 % of the devices have been asked for, nothing leaves, and what fits nowhere is
dropped. The file has counts of nodes and of tasks; without one, it is the published trace. Two rows
are no strategies: a packing that knows all tasks of the first 100 %, the large ones first, and a
bound that nothing can exceed. Part `mixes` does the same with other mixes of the tasks.
"""

import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench._mixes import mixes
from bench._packing_bound import most_placeable
from bench._scale import scaled
from bench._trace import PUBLISHED, Trace, read_trace
from drawbridge.choice.amounts import Task
from drawbridge.choice.catalog import strategies
from drawbridge.choice.cluster import NodeChooser
from drawbridge.choice.strategy import ChoiceStrategy
from drawbridge.choice.typical import typical_tasks

SEEDS: Final = scaled(10, 1)
PART: Final = scaled(1, 20)
NAMES: Final = (
    "random", "dot-product", "gpu-clustering", "gpu-packing", "best-fit", "fgd",
    "first-fit", "packed", "packed-nodes", "spread", "usable",
)  # fmt: skip
MIXED: Final = ("first-fit", "packed", "best-fit", "fgd", "usable")
MIXED_PART, MIXED_SEEDS = scaled(4, 20), scaled(10, 1)
# What the paper states for its own strategies on its trace.
PAPER: Final = {
    "random": "86.3 (87.5)", "dot-product": "90.6 (90.9)", "gpu-clustering": "91.7 (91.9)",
    "gpu-packing": "91.8 (92.0)", "best-fit": "92.9 (93.1)", "fgd": "95.2 (95.4)",
}  # fmt: skip


class Allocated(NamedTuple):
    """The part of the devices that is allocated, in per cent, at 100 and 130 % of demand."""

    at_100: float
    at_130: float


def play(trace: Trace, strategy: ChoiceStrategy, seed: int) -> Allocated:
    """Place the tasks of one seed."""
    chooser, capacity = NodeChooser(trace.nodes, strategy), trace.capacity
    asked = allocated = 0
    at_100: int | None = None
    for number, task in enumerate(trace.arrivals(seed, 1300)):
        asked += task.amount
        chosen = chooser.choose(task, f"task-{number}")
        if chosen is not None:
            chooser.place(task, chosen.node, chosen.judged.taken)
            allocated += task.amount
        if at_100 is None and asked >= capacity:
            at_100 = allocated
    if any(min((each.cpu, each.memory, *each.free)) < 0 for each in chooser.nodes.values()):
        raise SystemExit(f"{strategy.name}: a node has more tasks than fit")
    return Allocated(100 * (at_100 or 0) / capacity, 100 * allocated / capacity)


def _known(trace: Trace) -> dict[str, ChoiceStrategy]:
    return dict(strategies(trace.shapes, typical_tasks(trace.tasks.items())))


def _offline(trace: Trace, seed: int) -> float:
    """Pack the tasks of the first 100 %, the largest first."""
    chooser = NodeChooser(trace.nodes, _known(trace)["usable"])
    allocated = 0
    for task in sorted(trace.arrivals(seed, 1000), key=_size, reverse=True):
        chosen = chooser.choose(task, "")
        if chosen is not None:
            chooser.place(task, chosen.node, chosen.judged.taken)
            allocated += task.amount
    return 100 * allocated / trace.capacity


def _size(task: Task) -> tuple[object, ...]:
    return (task.devices, task.share, task.labels is not None, task.cpu)


def _print(name: str, runs: Sequence[Allocated], paper: str, seconds: float) -> None:
    at_100, at_130 = zip(*runs, strict=True)
    spread = statistics.pstdev(at_100)
    row = f"{statistics.mean(at_100):6.2f} ({statistics.mean(at_130):5.2f})  {spread:5.2f}"
    print(f"{name:16} {row}  {paper:>12}  {seconds:8.1f} s", flush=True)


def _check(means: dict[str, float], bound: float) -> None:
    """Check what holds for every trace: nothing is above the bound."""
    above = [name for name, mean in means.items() if mean > bound]
    if above:
        raise SystemExit(f"{above} allocate more than {bound:.2f} %")


def measure(trace: Trace, names: Iterable[str], seeds: int, paper: dict[str, str]) -> None:
    """Print a row for each strategy, the packing and the bound."""
    print(f"{'strategy':16} 100 % (130 %)  deviation  {'paper':>10}  CPU a seed")
    means = {}
    for name in names:
        strategy, started = _known(trace)[name], time.process_time()
        runs = [play(trace, strategy, seed) for seed in range(seeds)]
        seconds = (time.process_time() - started) / seeds
        means[name] = statistics.mean(each.at_100 for each in runs)
        _print(name, runs, paper.get(name, ""), seconds)
    devices = sum(shape.devices * count for shape, count in trace.shapes.items())
    bounds = [
        100 * most_placeable(trace.arrivals(seed, 1000), devices) / trace.capacity
        for seed in range(seeds)
    ]
    packed = [_offline(trace, seed) for seed in range(min(seeds, 2))]
    print(f"{'packed offline':16} {statistics.mean(packed):6.2f}")
    print(f"{'bound':16} {statistics.mean(bounds):6.2f}")
    _check(means, statistics.mean(bounds))


def run(path: str = "") -> None:
    """Print the table of a trace."""
    trace = read_trace(Path(path) if path else PUBLISHED).part(PART)
    nodes, tasks = sum(trace.shapes.values()), sum(trace.tasks.values())
    print(f"{nodes:,} nodes, {trace.capacity // 1000:,} GPUs, {tasks:,} tasks, {SEEDS} seeds")
    measure(trace, NAMES, SEEDS, {} if path or PART > 1 else PAPER)


def run_mixes() -> None:
    """Print the same for some strategies and other mixes of tasks, on a part of the nodes."""
    trace = read_trace(PUBLISHED).part(MIXED_PART)
    for title, mixed in mixes(trace):
        print(f"{title}: {sum(mixed.tasks.values()):,} tasks")
        measure(mixed, MIXED, MIXED_SEEDS, {})
