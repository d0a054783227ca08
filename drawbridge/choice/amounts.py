"""What a node has left, and what a task asks of it, as whole numbers.

Devices are counted in thousandths of one device, as is CPU; memory is in any unit, the same
everywhere. A task takes equal parts of several devices, or whole devices. Beside them it can take
parts of devices of other kinds, such as NICs, on the same PCIe roots or anywhere on the node.
"""

from itertools import chain
from typing import Final, NamedTuple, TypeAlias

WHOLE: Final = 1000

# The numbers of devices of a node, from 0, ascending; those of other kinds follow, kind by kind.
Taken: TypeAlias = tuple[int, ...]


class OtherDevices(NamedTuple):
    """The devices of another kind on a node, by the groups that they share with its devices.

    Both lists have a group for each device, such as its PCIe root; -1 is none.
    """

    kind: str
    groups: tuple[int, ...]
    of_devices: tuple[int, ...]


class Shape(NamedTuple):
    """What a node has in total. The label tells which tasks can run there, such as a product.

    `near` has the groups of near devices, for strategies that ask for them.
    """

    label: str
    cpu: int
    memory: int
    devices: int
    near: tuple[tuple[int, ...], ...] = ()
    others: tuple[OtherDevices, ...] = ()


class NodeRoom(NamedTuple):
    """What a node has left: CPU, memory, and thousandths of each device.

    `used` has the thousandths of some capacities of each device, for strategies with weights, and
    `others` what is left of each device of other kinds.
    """

    shape: Shape
    cpu: int
    memory: int
    free: tuple[int, ...]
    used: tuple[tuple[int, ...], ...] = ()
    others: tuple[tuple[int, ...], ...] = ()

    @property
    def is_idle(self) -> bool:
        """Whether nothing of the devices is taken."""
        return self.free.count(WHOLE) == len(self.free)


class AskedOthers(NamedTuple):
    """What a task takes of devices of another kind.

    Near ones are in the groups of its devices, with at least one for each of these groups.
    """

    kind: str
    devices: int
    share: int
    near: bool = False


class Task(NamedTuple):
    """What a pod asks for: a part of each of several devices, CPU and memory."""

    devices: int
    share: int
    cpu: int
    memory: int
    labels: frozenset[str] | None = None  # of the nodes where it can run; None for all
    others: tuple[AskedOthers, ...] = ()

    @property
    def amount(self) -> int:
        """The thousandths of devices that it takes."""
        return self.devices * self.share


def idle(shape: Shape) -> NodeRoom:
    """Return the state of a node on which nothing runs."""
    others = tuple((WHOLE,) * len(each.groups) for each in shape.others)
    return NodeRoom(shape, shape.cpu, shape.memory, (WHOLE,) * shape.devices, others=others)


def suits(node: NodeRoom, task: Task) -> bool:
    """Tell whether a task fits on a node without its devices."""
    return (
        task.cpu <= node.cpu
        and task.memory <= node.memory
        and (task.labels is None or node.shape.label in task.labels)
    )


def left_of(node: NodeRoom, number: int) -> int:
    """Return what is left of a device, or of one of other kinds."""
    return (*node.free, *chain.from_iterable(node.others))[number]


def take(node: NodeRoom, task: Task, taken: Taken) -> NodeRoom:
    """Return what a node has left with the task on it."""
    return _changed(node, task, taken, 1)


def give_back(node: NodeRoom, task: Task, taken: Taken) -> NodeRoom:
    """Return what a node has left after the task has ended."""
    return _changed(node, task, taken, -1)


def _changed(node: NodeRoom, task: Task, taken: Taken, sign: int) -> NodeRoom:
    free, others = list(node.free), node.others
    for number in taken[: task.devices]:
        free[number] -= sign * task.share
    if task.others:
        others = _changed_others(node, task, taken[task.devices :], sign)
    cpu, memory = node.cpu - sign * task.cpu, node.memory - sign * task.memory
    return NodeRoom(node.shape, cpu, memory, tuple(free), node.used, others)


def _changed_others(
    node: NodeRoom, task: Task, taken: Taken, sign: int
) -> tuple[tuple[int, ...], ...]:
    shares = {each.kind: sign * each.share for each in task.others}
    first, changed = len(node.free), []
    for others, left in zip(node.shape.others, node.others, strict=True):
        free = list(left)
        for number in taken:
            if first <= number < first + len(left):
                free[number - first] -= shares[others.kind]
        first += len(left)
        changed.append(tuple(free))
    return tuple(changed)
