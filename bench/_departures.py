"""Measures who waits in a busy week: tasks arrive and end, and what fits nowhere waits.

A part of the published cluster. Tasks are drawn from the trace so that they keep 85, 90 and 95 % of
the devices busy if all could start at once, with running times of an hour to a day. Every ten
minutes, tasks end, then those that wait are tried in order, with the new ones behind them. *Large*
are tasks of several devices. *Stranded* are the free parts that a typical task cannot use, as the
gradient of fragmentation counts them, in per cent of all devices. Each row has the means of several
weeks, the same for all strategies, and the deviation between them. The ratios compare the mean
waiting time of the large ones with that of first-fit, of upstream (the default scores of
kube-scheduler, and the first devices) and of fragmentation gradient descent.
"""

import random
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from bench import _week
from bench._scale import scaled
from bench._trace import PUBLISHED, Trace, read_trace
from bench._week import Arrival, Job
from drawbridge.choice.amounts import NodeRoom
from drawbridge.choice.catalog import strategies
from drawbridge.choice.fragmentation import FragmentationDescent
from drawbridge.choice.typical import typical_tasks

PART: Final = scaled(10, 40)
STEPS: Final = scaled(7 * 144, 144)
LOADS: Final = scaled((85, 90, 95), (90,))
SEEDS: Final = scaled(5, 1)
COMPARED: Final = ("first-fit", "upstream", "fgd")
NAMES: Final = (*COMPARED, "packed", "best-fit", "usable")
SHORTEST, LONGEST = 6, 144  # steps of ten minutes
_MAX_STATES: Final = 4096


class Week(NamedTuple):
    """Hours that tasks waited on average, and means over the week in per cent."""

    all_tasks: float
    large: float
    waiting_at_end: int
    allocated: float
    stranded: float


def _arrivals(trace: Trace, load: int, seed: int) -> list[list[Arrival]]:
    """Return the tasks and their running times, by step."""
    drawn = random.Random(seed)  # not a secret
    tasks, counts = list(trace.tasks), list(trace.tasks.values())
    mean = (SHORTEST + LONGEST) / 2
    per_step = trace.capacity * load / 100 / mean
    steps, owed = [], 0.0
    for _ in range(STEPS):
        owed += per_step
        arrived = []
        while owed > 0:
            task = drawn.choices(tasks, counts)[0]
            arrived.append(Arrival(Job(task), drawn.randint(SHORTEST, LONGEST)))
            owed -= task.amount
        steps.append(arrived)
    return steps


def play(trace: Trace, name: str, load: int, seed: int) -> Week:
    """Play a week with a strategy."""
    typical = typical_tasks(trace.tasks.items())
    strategy = strategies(trace.shapes, typical)[name]
    # Most nodes do not change from one step to the next.
    fragments = lru_cache(_MAX_STATES)(FragmentationDescent(typical).fragments)
    allocated, stranded = list[float](), list[float]()

    def observe(nodes: Iterable[NodeRoom]) -> None:
        states = list(nodes)
        lost = sum(map(fragments, states)) / typical.total
        free = sum(sum(each.free) for each in states)
        allocated.append(100 - 100 * free / trace.capacity)
        stranded.append(100 * lost / trace.capacity)

    jobs, at_end = _week.play(trace.nodes, strategy, _arrivals(trace, load, seed), observe)
    large = [steps for job, steps in jobs if job.task.devices > 1]
    hours = statistics.mean(steps for _, steps in jobs) / 6, statistics.mean(large or [0]) / 6
    return Week(*hours, at_end, statistics.mean(allocated), statistics.mean(stranded))


def _print(load: int, name: str, weeks: Sequence[Week], compared: Mapping[str, float]) -> None:
    means = Week(*map(statistics.mean, zip(*weeks, strict=True)))
    deviation = statistics.pstdev(each.large for each in weeks)
    ratios = (f"{means.large / compared[e]:5.2f}" if compared.get(e) else "    -" for e in COMPARED)
    print(
        f"{load:3} %  {name:10} {means.all_tasks:9.2f} {means.large:8.2f} ({deviation:5.2f})"
        f"  {'  '.join(ratios)}  {means.waiting_at_end:8.1f}  {means.allocated:9.1f} %"
        f" {means.stranded:7.1f} %",
        flush=True,
    )


def run() -> None:
    """Print a row for each load and strategy."""
    trace, started = read_trace(PUBLISHED).part(PART), time.process_time()
    nodes, devices = sum(trace.shapes.values()), trace.capacity // 1000
    print(f"{nodes} nodes, {devices} GPUs, {STEPS // 6} hours, {SEEDS} weeks")
    print(
        "load  strategy    waits, h  large, h (dev.)  of first-fit, upstream, fgd"
        "  waiting  allocated  stranded"
    )
    for load in LOADS:
        weeks = {name: [play(trace, name, load, seed) for seed in range(SEEDS)] for name in NAMES}
        compared = {name: statistics.mean(each.large for each in weeks[name]) for name in COMPARED}
        for name in NAMES:
            _print(load, name, weeks[name], compared)
    print(f"{(time.process_time() - started) / 60:.1f} minutes of CPU")
