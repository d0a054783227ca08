"""Nodes and tasks of a trace, as counts in a file, and the order in which tasks arrive."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec

from drawbridge.choice.amounts import WHOLE, NodeRoom, Shape, Task, idle

PUBLISHED: Final = Path(__file__).parent / "data" / "fragmentation.json"


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
    """Read a trace: `nodes` and `pods` with counts; a pod can name the `models` of its nodes.

    Ends the process if nothing can be measured with the file.
    """
    try:
        content = msgspec.json.decode(path.read_bytes(), type=_Content)
    except (OSError, msgspec.MsgspecError) as error:
        raise SystemExit(f"{path}: {error}") from None
    shapes: Counter[Shape] = Counter()
    for node in content.nodes:
        shapes[Shape(node.model, node.cpu_milli, node.memory_mib, node.gpus)] += node.count
    tasks: Counter[Task] = Counter()
    for pod in content.pods:
        models = frozenset(pod.models) if pod.models else None
        share = pod.gpu_milli if pod.gpus else 0
        tasks[Task(pod.gpus, share, pod.cpu_milli, pod.memory_mib, models)] += pod.count
    trace = Trace(dict(shapes), dict(tasks))
    if not trace.capacity or not any(each.amount * count for each, count in tasks.items()):
        raise SystemExit(f"{path}: no node has GPUs, or no pod asks for any")
    return trace


_Number = Annotated[int, msgspec.Meta(ge=0)]


class _Nodes(msgspec.Struct):
    """Nodes that are alike."""

    model: str
    gpus: _Number
    cpu_milli: _Number
    memory_mib: _Number
    count: _Number


class _Pods(msgspec.Struct):
    """Pods that ask for the same; `gpu_milli` of each of their GPUs."""

    gpus: _Number
    gpu_milli: Annotated[int, msgspec.Meta(ge=0, le=WHOLE)]
    cpu_milli: _Number
    memory_mib: _Number
    count: _Number
    models: tuple[str, ...] | None = None


class _Content(msgspec.Struct):
    """What a file has."""

    nodes: tuple[_Nodes, ...]
    pods: tuple[_Pods, ...]
