"""The typical tasks: what has been asked for, and how often. Strategies look ahead with them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from drawbridge.choice.amounts import AskedOthers, Task

# The devices of a task and the part of each, and what it takes of other kinds.
_Devices: TypeAlias = tuple[int, int, tuple[AskedOthers, ...]]


class TaskKind(NamedTuple):
    """Tasks that are alike but for CPU and memory, and for what each of these is how often."""

    devices: int
    share: int
    members: tuple[tuple[int, int, int], ...]  # CPU, memory and weight; least CPU first
    others: tuple[AskedOthers, ...] = ()


class TypicalTasks(msgspec.Struct, frozen=True):
    """A distribution of tasks. Weights are whole numbers, relative to `total`."""

    weights: Mapping[Task, int]
    total: int

    def kinds(self, label: str) -> tuple[TaskKind, ...]:
        """Return the tasks with devices that can run on nodes with a label."""
        grouped: dict[_Devices, Counter[tuple[int, int]]] = {}
        for task, weight in self.weights.items():
            if task.devices and (task.labels is None or label in task.labels):
                members = grouped.setdefault((task.devices, task.share, task.others), Counter())
                members[task.cpu, task.memory] += weight
        return tuple(
            TaskKind(devices, share, _by_cpu(members), others)
            for (devices, share, others), members in sorted(grouped.items())
        )


def _by_cpu(members: Mapping[tuple[int, int], int]) -> tuple[tuple[int, int, int], ...]:
    return tuple((*amounts, weight) for amounts, weight in sorted(members.items()))


def typical_tasks(counted: Iterable[tuple[Task, int]]) -> TypicalTasks:
    """Return the distribution of counted tasks."""
    weights = Counter[Task]()
    for task, count in counted:
        weights[task] += count
    return TypicalTasks(dict(weights), max(1, weights.total()))
