"""The typical tasks, learned from what has been asked for lately.

What exists when a process starts says enough: the tasks of the pods that run and wait. No
namespace determines the strategy for all others, however many tasks it creates.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

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
    """The last tasks that were asked for, each pod once.

    A namespace that has a third of them drops its own oldest: it displaces no others.
    """

    def __init__(self) -> None:
        self._tasks: OrderedDict[str, AskedTask] = OrderedDict()
        self._pods: dict[str, OrderedDict[str, None]] = {}  # by namespace
        self._new = 0

    def note(self, pod: str, asked: AskedTask) -> None:
        """Note the task of a pod; asking again counts once."""
        self._new += pod not in self._tasks
        self._drop(pod)
        self._tasks[pod] = asked
        own = self._pods.setdefault(asked.namespace, OrderedDict())
        own[pod] = None
        if len(self._tasks) > _MAX_TASKS:
            is_large = len(own) * _FEWEST_NAMESPACES > _MAX_TASKS
            self._drop(next(iter(own if is_large else self._tasks)))

    def _drop(self, pod: str) -> None:
        asked = self._tasks.pop(pod, None)
        if asked is not None:
            del self._pods[asked.namespace][pod]
            if not self._pods[asked.namespace]:
                del self._pods[asked.namespace]

    @property
    def is_outdated(self) -> bool:
        """Whether a quarter of the tasks is new, or many are."""
        return self._new >= min(_MOST_NEW, 1 + len(self._tasks) // 4)

    def learn(self) -> TypicalTasks:
        """Return what is typical now."""
        self._new = 0
        return recent_tasks(self._tasks.values())


def recent_tasks(asked: Iterable[AskedTask]) -> TypicalTasks:
    """Return the distribution of the tasks, with the weight of large namespaces limited.

    The weights are those of the tasks that count.
    """
    by_namespace: dict[str, Counter[Task]] = {}
    for namespace, task in asked:
        by_namespace.setdefault(namespace, Counter())[task] += 1
    kept = _most_common(by_namespace)
    for counts in by_namespace.values():
        for task in counts.keys() - kept:
            del counts[task]
    return typical_tasks(_weigh(by_namespace).items())


def _weigh(by_namespace: Mapping[str, Mapping[Task, int]]) -> Mapping[Task, int]:
    """Return the weights of tasks; no namespace has more than its part."""
    limit = _limit([_devices(each) for each in by_namespace.values()])
    weights: Counter[Task] = Counter()
    for counts in by_namespace.values():
        total = max(1, _devices(counts))
        for task, count in counts.items():
            weights[task] += _PRECISION * count * min(total, limit) // total
    return weights


def _devices(counts: Mapping[Task, int]) -> int:
    """Return how many devices so many tasks ask for; a part counts as one."""
    return sum(count * task.devices for task, count in counts.items())


def _limit(totals: Collection[int]) -> int:
    """Return how many devices of a namespace count: at most a third of those that count."""
    parts = min(_FEWEST_NAMESPACES, sum(map(bool, totals)))
    low, high = 0, max(totals, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if middle * parts <= sum(min(each, middle) for each in totals):
            low = middle
        else:
            high = middle - 1
    return low


def _most_common(by_namespace: Mapping[str, Mapping[Task, int]]) -> Collection[Task]:
    """Return the tasks with the most devices by weight; of equal ones those that ask for least.

    Those that are among the first ones of a namespace come before the many that another one has.
    """
    own = _MAX_KINDS // max(1, min(_FEWEST_NAMESPACES, len(by_namespace)))
    first = {
        task
        for counts in by_namespace.values()
        for task in sorted(counts, key=_by_devices(counts))[:own]
    }
    weights = _weigh(by_namespace)
    by_weight = sorted(weights, key=_by_devices(weights))
    return set(sorted(by_weight, key=lambda task: task not in first)[:_MAX_KINDS])


def _by_devices(counts: Mapping[Task, int]) -> Callable[[Task], tuple[object, ...]]:
    """Return the key that sorts tasks so that those with the most devices are the first ones."""
    return lambda task: (
        -counts[task] * task.devices,
        task[:4],
        sorted(task.labels or ()),
        task.others,
    )
