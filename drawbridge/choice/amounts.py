"""What a node has left, and what a task asks of it, as whole numbers.

Devices are counted in thousandths of one device, as is CPU; memory is in any unit, the same
everywhere. A task takes equal parts of several devices, or whole devices.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

WHOLE: Final = 1000
# Of more devices that differ, the first ones are compared.
_MAX_OPTIONS: Final = 32

# The numbers of devices of a node, from 0, ascending.
Taken: TypeAlias = tuple[int, ...]


class Shape(NamedTuple):
    """What a node has in total. The label tells which tasks can run there, such as a product.

    `near` has the groups of near devices, for strategies that ask for them.
    """

    label: str
    cpu: int
    memory: int
    devices: int
    near: tuple[tuple[int, ...], ...] = ()


class NodeRoom(NamedTuple):
    """What a node has left: CPU, memory, and thousandths of each device.

    `used` has the thousandths of some capacities of each device, for strategies with weights.
    """

    shape: Shape
    cpu: int
    memory: int
    free: tuple[int, ...]
    used: tuple[tuple[int, ...], ...] = ()

    @property
    def is_idle(self) -> bool:
        """Whether nothing of the devices is taken."""
        return self.free.count(WHOLE) == len(self.free)


class Task(NamedTuple):
    """What a pod asks for: a part of each of several devices, CPU and memory."""

    devices: int
    share: int
    cpu: int
    memory: int
    labels: frozenset[str] | None = None  # of the nodes where it can run; None for all

    @property
    def amount(self) -> int:
        """The thousandths of devices that it takes."""
        return self.devices * self.share


def idle(shape: Shape) -> NodeRoom:
    """Return the state of a node on which nothing runs."""
    return NodeRoom(shape, shape.cpu, shape.memory, (WHOLE,) * shape.devices)


def suits(node: NodeRoom, task: Task) -> bool:
    """Tell whether a task fits on a node without its devices."""
    return (
        task.cpu <= node.cpu
        and task.memory <= node.memory
        and (task.labels is None or node.shape.label in task.labels)
    )


def options(node: NodeRoom, task: Task) -> Iterator[Taken]:
    """Yield the devices that a task can take, without those that differ only in their number.

    For parts of several devices these are the fullest and the emptiest ones only.
    """
    if not task.devices:
        yield ()
    elif task.devices == 1:
        seen = set[int]()
        for number, left in enumerate(node.free):
            if left >= task.share and left not in seen:
                seen.add(left)
                yield (number,)
                if len(seen) == _MAX_OPTIONS:
                    return
    else:
        able = [number for number, left in enumerate(node.free) if left >= task.share]
        if len(able) < task.devices:
            return
        fullest = sorted(able, key=lambda each: node.free[each])[: task.devices]
        emptiest = sorted(able, key=lambda each: -node.free[each])[: task.devices]
        yield tuple(sorted(fullest))
        if sorted(emptiest) != sorted(fullest):
            yield tuple(sorted(emptiest))


def take(node: NodeRoom, task: Task, taken: Sequence[int]) -> NodeRoom:
    """Return what a node has left with the task on it."""
    return _changed(node, task, taken, 1)


def give_back(node: NodeRoom, task: Task, taken: Sequence[int]) -> NodeRoom:
    """Return what a node has left after the task has ended."""
    return _changed(node, task, taken, -1)


def _changed(node: NodeRoom, task: Task, taken: Sequence[int], sign: int) -> NodeRoom:
    free = list(node.free)
    for number in taken:
        free[number] -= sign * task.share
    cpu, memory = node.cpu - sign * task.cpu, node.memory - sign * task.memory
    return NodeRoom(node.shape, cpu, memory, tuple(free), node.used)
