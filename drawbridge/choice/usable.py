"""The strategy of Drawbridge: a task goes where most of what stays free can still be used.

For a typical task, a node can be used as far as copies of it fit: one on each free part that is
large enough, and no more than the CPU and the memory beside the devices allow. What a copy leaves
of its device counts as far as further tasks are likely to use it (`_further`). The value of a node
is the sum over the typical tasks by how common they are; the score is the change of the value.

So it sees what the gradient of fragmentation does not: a node with eight free devices and CPU for
one task has room for one task only, a part that fills a device is worth more than one that leaves a
remainder, and what few nodes can serve is worth most. For the last, the weight of a typical task is
divided by the part of the cluster that it could use if all nodes were idle.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from drawbridge.bounded_cache import BoundedCache
from drawbridge.choice.amounts import (
    WHOLE,
    NodeRoom,
    Shape,
    Taken,
    Task,
    idle,
    options,
    suits,
    take,
)
from drawbridge.choice.strategy import MAX_REMEMBERED, JudgedNode, Part
from drawbridge.choice.typical import TaskKind, TypicalTasks

# The weights are multiplied by this, so that little is lost when they are rounded.
_PRECISION: Final = 1000
# The most common shapes say how much of the cluster a task could use.
_MAX_SHAPES: Final = 64
# No task counts as if less than this part of the cluster could serve it.
_SCARCEST: Final = 1000


class _Label(NamedTuple):
    """What can run on the nodes with one label."""

    kinds: tuple[TaskKind, ...]
    # For each kind, what a free part is worth to it, by the thousandths that are free.
    worth: tuple[tuple[int, ...], ...]


class Usable:
    """The most that typical tasks could still use, after this task."""

    name: Final = "usable"
    draws: Final = False

    def __init__(self, typical: TypicalTasks, shapes: Mapping[Shape, int]) -> None:
        """Look ahead with typical tasks on so many nodes of each shape."""
        self._typical = typical
        labels = {shape.label for shape in shapes}
        self._labels = {each: _read_label(typical, each) for each in labels}
        common = sorted(shapes, key=lambda each: (-shapes[each], each))[:_MAX_SHAPES]
        self._labels = self._by_scarcity({each: shapes[each] for each in common})
        self._values: BoundedCache[NodeRoom, int] = BoundedCache(MAX_REMEMBERED)

    def judge(self, node: NodeRoom, task: Task) -> JudgedNode | None:
        """Return the devices after which most can be used."""
        if not suits(node, task):
            return None
        best: JudgedNode | None = None
        for taken in options(node, task):
            value = self._value(take(node, task, taken))
            if best is None or value > best.score:
                best = JudgedNode(value, taken)
        return best and JudgedNode(best.score - self._before(node), best.taken)

    def parts(self, node: NodeRoom, task: Task, taken: Taken) -> tuple[Part, ...]:
        """Return the change for each kind of typical task."""
        after, label = take(node, task, taken), self._of_label(node.shape.label)
        changes = zip(label.kinds, _values(label, node), _values(label, after), strict=True)
        return tuple(
            Part(f"tasks of {kind.devices} x {kind.share}", new - old) for kind, old, new in changes
        )

    def _before(self, node: NodeRoom) -> int:
        value = self._values.get(node)
        if value is None:
            value = self._value(node)
            self._values.put(node, value)
        return value

    def _value(self, node: NodeRoom) -> int:
        return sum(_values(self._of_label(node.shape.label), node))

    def _of_label(self, label: str) -> _Label:
        found = self._labels.get(label)
        if found is None:
            found = self._labels[label] = _read_label(self._typical, label)
        return found

    def _by_scarcity(self, shapes: Mapping[Shape, int]) -> dict[str, _Label]:
        """Divide the weight of each task by what it could use of an idle cluster."""
        total = sum(WHOLE * shape.devices * count for shape, count in shapes.items())
        usable = {
            task: sum(
                count * self._usable_by(task, shape)
                for shape, count in shapes.items()
                if suits(idle(shape), task)
            )
            for task in self._typical.weights
        }
        weights = {
            task: _PRECISION * weight * total // max(usable[task], total // _SCARCEST, 1)
            for task, weight in self._typical.weights.items()
        }
        weighted = TypicalTasks(weights, self._typical.total)
        return {
            name: _Label(weighted.kinds(name), label.worth) for name, label in self._labels.items()
        }

    def _usable_by(self, task: Task, shape: Shape) -> int:
        """Return what copies of a task could use of an idle node."""
        label = self._labels[shape.label]
        for kind, worth in zip(label.kinds, label.worth, strict=True):
            if (kind.devices, kind.share) == (task.devices, task.share):
                alone = kind._replace(members=((task.cpu, task.memory, 1),))
                return sum(_values(_Label((alone,), (worth,)), idle(shape)))
        return 0


def _read_label(typical: TypicalTasks, label: str) -> _Label:
    kinds = typical.kinds(label)
    further = _further(kinds, typical.total)
    return _Label(kinds, tuple(_worth(kind, further) for kind in kinds))


def _further(kinds: Sequence[TaskKind], total: int) -> tuple[int, ...]:
    """Return how much of a free part further tasks use, by its size.

    The next task comes to it and takes what it asks if it fits; each step counts half of the one
    before. The sum of that series needs no limit.
    """
    single = [
        (kind.share, sum(each[2] for each in kind.members)) for kind in kinds if kind.devices == 1
    ]
    used: list[int] = []
    for size in range(WHOLE + 1):
        fitting = [(share, weight) for share, weight in single if 0 < share <= size]
        taken = sum(weight * (share + used[size - share]) for share, weight in fitting)
        used.append(taken // (total + sum(weight for _, weight in fitting)))
    return tuple(used)


def _worth(kind: TaskKind, further: Sequence[int]) -> tuple[int, ...]:
    too_small = (0,) * kind.share
    if kind.devices > 1:
        return (*too_small, *range(kind.share, WHOLE + 1))
    return (*too_small, *(kind.share + further[size] for size in range(WHOLE - kind.share + 1)))


def _values(label: _Label, node: NodeRoom) -> list[int]:
    """Return what each kind of typical tasks could use, times its weight."""
    cpu, memory, free = node.cpu, node.memory, node.free
    values = []
    for (devices, share, members), worth in zip(label.kinds, label.worth, strict=True):
        parts = [worth[left] for left in free if left >= share]
        value = 0
        if len(parts) >= devices:
            most, amount = sum(parts), devices * share
            for asked_cpu, asked_memory, weight in members:
                if asked_cpu > cpu:
                    break
                if asked_memory <= memory:
                    usable = min(
                        most,
                        cpu * amount // asked_cpu if asked_cpu else most,
                        memory * amount // asked_memory if asked_memory else most,
                    )
                    value += weight * usable
        values.append(value)
    return values
