"""Nodes and tasks of a trace, as counts in a file, and the order in which tasks arrive."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from drawbridge.choice.amounts import WHOLE, NodeRoom, Shape, Task, idle


class Trace(NamedTuple):
    """How many nodes of each shape and how many tasks of each kind there are."""

    shapes: Mapping[Shape, int]
    tasks: Mapping[Task, int]

    @property
    def nodes(self) -> dict[str, NodeRoom]:
        """The nodes by name, all idle."""
        states = [idle(shape) for shape, count in self.shapes.items() for _ in range(count)]
        return {f"node-{number:05}": state for number, state in enumerate(states)}

    @property
    def capacity(self) -> int:
        """The thousandths of all devices."""
        return sum(WHOLE * shape.devices * count for shape, count in self.shapes.items())

    def part(self, divisor: int) -> "Trace":
        """Return a cluster with a part of the nodes of each shape, and the same tasks."""
        return self._replace(shapes={e: -(-count // divisor) for e, count in self.shapes.items()})

    def arrivals(self, seed: int, per_mille: int) -> Iterator[Task]:
        """Yield each task once in random order, then drawn ones, up to a demand of the capacity."""
        order = random.Random(seed)  # not a secret
        tasks = [task for task, count in self.tasks.items() for _ in range(count)]
        order.shuffle(tasks)
        asked = number = 0
        while asked * 1000 < self.capacity * per_mille:
            task = tasks[number] if number < len(tasks) else order.choice(tasks)
            number += 1
            asked += task.amount
            yield task


def read_trace(path: Path) -> Trace:
    """Read a trace: `nodes` and `pods` with counts; a pod can name the `models` of its nodes."""
    content: dict[str, Sequence[Mapping[str, Any]]] = json.loads(path.read_text(encoding="utf-8"))
    shapes: Counter[Shape] = Counter()
    for node in content["nodes"]:
        shape = Shape(node["model"], node["cpu_milli"], node["memory_mib"], node["gpus"])
        shapes[shape] += node["count"]
    tasks: Counter[Task] = Counter()
    for pod in content["pods"]:
        models = frozenset(pod["models"]) if pod.get("models") else None
        amounts = (pod["gpus"], pod["gpu_milli"], pod["cpu_milli"], pod["memory_mib"])
        tasks[Task(*amounts, models)] += pod["count"]
    return Trace(dict(shapes), dict(tasks))
