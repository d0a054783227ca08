"""The typical tasks, learned from what has been asked for lately.

What exists when a process starts says enough: the tasks of the pods that run and wait. No
namespace determines the strategy for all others, however many tasks it creates.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from drawbridge.bounded_cache import BoundedCache
from drawbridge.choice.amounts import Task
from drawbridge.choice.typical import TypicalTasks, typical_tasks

# A namespace has at most a third of the weight, if there are three.
_FEWEST_NAMESPACES: Final = 3
# The tasks that ask for most devices count; the number of kinds is what a judgement costs.
_MAX_KINDS: Final = 64
_PRECISION: Final = 1000
# So many pods are remembered. After so many new ones, what is typical is learned again.
_MAX_TASKS: Final = 4096
_MOST_NEW: Final = 256


class AskedTask(NamedTuple):
    """A task and the namespace that asked for it."""

    namespace: str
    task: Task


class RecentTasks:
    """The last tasks that were asked for, each pod once."""

    def __init__(self) -> None:
        self._tasks: BoundedCache[str, AskedTask] = BoundedCache(_MAX_TASKS)
        self._new = 0

    def note(self, pod: str, asked: AskedTask) -> None:
        """Note the task of a pod; asking again counts once."""
        self._new += pod not in self._tasks
        self._tasks.put(pod, asked)

    @property
    def is_outdated(self) -> bool:
        """Whether a quarter of the tasks is new, or many are."""
        return self._new >= min(_MOST_NEW, 1 + len(self._tasks) // 4)

    def learn(self) -> TypicalTasks:
        """Return what is typical now."""
        self._new = 0
        return recent_tasks(task for _, task in self._tasks.items())


def recent_tasks(asked: Iterable[AskedTask]) -> TypicalTasks:
    """Return the distribution of the tasks, with the weight of large namespaces limited."""
    by_namespace: dict[str, Counter[Task]] = {}
    for namespace, task in asked:
        by_namespace.setdefault(namespace, Counter())[task] += 1
    limit = _limit([_devices(each) for each in by_namespace.values()])
    weights: Counter[Task] = Counter()
    for counts in by_namespace.values():
        total = max(1, _devices(counts))
        for task, count in counts.items():
            weights[task] += _PRECISION * count * min(total, limit) // total
    return typical_tasks(_most_common(weights))


def _devices(counts: Mapping[Task, int]) -> int:
    """Return how many devices so many tasks ask for; a part counts as one."""
    return sum(count * task.devices for task, count in counts.items())


def _limit(totals: Collection[int]) -> int:
    """Return how many devices of a namespace count: at most a third of those that count."""
    parts = min(_FEWEST_NAMESPACES, len(totals))
    low, high = 0, max(totals, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if middle * parts <= sum(min(each, middle) for each in totals):
            low = middle
        else:
            high = middle - 1
    return low


def _most_common(weights: Mapping[Task, int]) -> list[tuple[Task, int]]:
    """Return the tasks with the most devices by weight; of equal ones those that ask for least."""

    def rank(item: tuple[Task, int]) -> tuple[object, ...]:
        task, weight = item
        return (-weight * task.devices, task[:4], sorted(task.labels or ()))

    return sorted(weights.items(), key=rank)[:_MAX_KINDS]
