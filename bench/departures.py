"""Measures who waits in a busy week: tasks arrive and end, and what fits nowhere waits.

A part of the published cluster. Tasks are drawn from the trace so that they keep 85, 90 and 95 % of
the devices busy if all could start at once, with running times of an hour to a day. Every ten
minutes, tasks end, then those that wait are tried in order, with the new ones behind them. *Large*
are tasks of several devices. *Fragments* are the free parts that a typical task cannot use, as the
gradient of fragmentation counts them, in per cent of all devices.
"""

import heapq
import random
import statistics
import time
from typing import Final, NamedTuple

from bench._scale import scaled
from bench._trace import Trace, read_trace
from bench.fragmentation import PUBLISHED
from drawbridge.choice.amounts import Taken, Task, give_back
from drawbridge.choice.catalog import strategies
from drawbridge.choice.cluster import NodeChooser
from drawbridge.choice.fragmentation import FragmentationDescent
from drawbridge.choice.typical import typical_tasks

PART: Final = scaled(10, 40)
STEPS: Final = scaled(7 * 144, 144)
LOADS: Final = scaled((85, 90, 95), (90,))
NAMES: Final = ("first-fit", "packed", "best-fit", "fgd", "usable")
SHORTEST, LONGEST = 6, 144  # steps of ten minutes


class _Running(NamedTuple):
    ends: int
    number: int
    node: str
    task: Task
    taken: Taken


class Week(NamedTuple):
    """Hours that tasks waited on average, and means over the week in per cent."""

    all_tasks: float
    large: float
    waiting_at_end: int
    allocated: float
    fragments: float


def _arrivals(trace: Trace, load: int, seed: int) -> list[list[tuple[Task, int]]]:
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
            arrived.append((task, drawn.randint(SHORTEST, LONGEST)))
            owed -= task.amount
        steps.append(arrived)
    return steps


def play(trace: Trace, name: str, load: int, seed: int) -> Week:
    """Play a week with a strategy."""
    typical = typical_tasks(trace.tasks.items())
    chooser = NodeChooser(trace.nodes, strategies(trace.shapes, typical)[name])
    measure, running = FragmentationDescent(typical), list[_Running]()
    waiting: list[tuple[int, int, Task, int]] = []
    waited: list[tuple[Task, int]] = []
    allocated, fragments, number = list[float](), list[float](), 0
    for step, arrived in enumerate(_arrivals(trace, load, seed)):
        while running and running[0].ends <= step:
            ended = heapq.heappop(running)
            state = give_back(chooser.nodes[ended.node], ended.task, ended.taken)
            chooser.change(ended.node, state)
        for task, length in arrived:
            number += 1
            waiting.append((step, number, task, length))
        still, failed = [], set[Task]()
        for since, key, task, length in waiting:
            chosen = None if task in failed else chooser.choose(task, f"task-{key}")
            if chosen is None:
                failed.add(task)
                still.append((since, key, task, length))
                continue
            chooser.place(task, chosen.node, chosen.judged.taken)
            taken = chosen.judged.taken
            heapq.heappush(running, _Running(step + length, key, chosen.node, task, taken))
            waited.append((task, step - since))
        waiting = still
        free = sum(sum(each.free) for each in chooser.nodes.values())
        lost = sum(map(measure.fragments, chooser.nodes.values())) / typical.total
        allocated.append(100 - 100 * free / trace.capacity)
        fragments.append(100 * lost / trace.capacity)
    waited += [(task, STEPS - since) for since, _, task, _ in waiting]
    large = [steps for task, steps in waited if task.devices > 1]
    hours = statistics.mean(steps for _, steps in waited) / 6, statistics.mean(large or [0]) / 6
    return Week(*hours, len(waiting), statistics.mean(allocated), statistics.mean(fragments))


def run() -> None:
    """Print a row for each load and strategy."""
    trace = read_trace(PUBLISHED).part(PART)
    print(f"{sum(trace.shapes.values())} nodes, {trace.capacity // 1000} GPUs, {STEPS // 6} hours")
    print(
        "load  strategy    waits, h  large, h  (of first-fit)  still waiting  allocated  fragments"
    )
    for load in LOADS:
        first = 0.0
        for name in NAMES:
            started = time.process_time()
            week = play(trace, name, load, 1)
            first = first or week.large
            ratio = f"{week.large / first:5.2f}" if first else "    -"
            seconds = time.process_time() - started
            print(
                f"{load:3} %  {name:10} {week.all_tasks:9.2f} {week.large:9.2f}  {ratio:>14}"
                f" {week.waiting_at_end:14} {week.allocated:9.1f} % {week.fragments:8.1f} %"
                f"   {seconds:5.1f} s",
                flush=True,
            )
