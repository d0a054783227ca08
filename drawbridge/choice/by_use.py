"""Strategies by one figure of nodes, as others have published them, and first fit.

Each has a rule for nodes and a rule for the devices of a node. A rule is a list of figures with
weights; the score is their sum. Figures are thousandths, before the task takes anything.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from drawbridge.choice.amounts import WHOLE, NodeRoom, Shape, Taken, Task, left_of, suits
from drawbridge.choice.options import options
from drawbridge.choice.strategy import JudgedNode, Part

# A figure about a node and a task; the devices are those that the task takes.
Figure: TypeAlias = Callable[[NodeRoom, Task, Taken], int]
Rule: TypeAlias = Sequence[tuple[str, int, Figure]]


class ByUse(msgspec.Struct, frozen=True):
    """A strategy by figures: the devices with the best score, and the score of the node."""

    name: str
    of_node: Rule = ()
    of_devices: Rule = ()
    draws: bool = False

    def judge(self, node: NodeRoom, task: Task) -> JudgedNode | None:
        """Return the best devices by their rule, with the score of both rules."""
        if not suits(node, task):
            return None
        best: JudgedNode | None = None
        for taken in options(node, task):
            score = sum(weight * figure(node, task, taken) for _, weight, figure in self.of_devices)
            if best is None or score > best.score:
                best = JudgedNode(score, taken)
        if best is None:
            return None
        of_node = sum(weight * figure(node, task, best.taken) for _, weight, figure in self.of_node)
        return JudgedNode(of_node, best.taken)

    def parts(self, node: NodeRoom, task: Task, taken: Taken) -> tuple[Part, ...]:
        """Return the figures of the node, with their weights."""
        return tuple(
            Part(name, weight * figure(node, task, taken)) for name, weight, figure in self.of_node
        )


# --- figures of a node ---------------------------------------------------------------------------


def devices_in_use(node: NodeRoom, _: Task, __: Taken) -> int:
    """Return how much of the devices is taken."""
    total = WHOLE * len(node.free)
    return (total - sum(node.free)) * WHOLE // total if total else 0


def free_devices(node: NodeRoom, task: Task, _: Taken) -> int:
    """Return what is free of the devices, in hundredths of one, for tasks with devices."""
    return sum(node.free) // 320 if task.devices else 0


def cpu_in_use(node: NodeRoom, _: Task, __: Taken) -> int:
    """Return how much of the CPU is taken."""
    return (node.shape.cpu - node.cpu) * WHOLE // max(1, node.shape.cpu)


def memory_in_use(node: NodeRoom, _: Task, __: Taken) -> int:
    """Return how much of the memory is taken."""
    return (node.shape.memory - node.memory) * WHOLE // max(1, node.shape.memory)


def kinds_alike(node: NodeRoom, task: Task, _: Taken) -> int:
    """Rate nodes with tasks of this kind above idle ones, and these above those with others.

    There are two kinds, parts and whole devices. What is free on a device tells which it holds.
    """
    if not task.devices:
        return 0
    kinds = {left > 0 for left in node.free if left < WHOLE}
    if (task.share < WHOLE) in kinds:
        return 4 - len(kinds)
    return 0 if kinds else 1


def occupied_first(node: NodeRoom, task: Task, taken: Taken) -> int:
    """Rate devices in use above free devices, and these above those of an idle node.

    Of devices in use, those with least free are best, else the fewest free devices.
    """
    if not task.devices:
        return 0
    free = [node.free[number] for number in taken[: task.devices]]
    if node.is_idle:
        return max(33 - len(node.free), len(node.free))
    if WHOLE in free:
        return max(50 - free.count(WHOLE), 33)
    return max(100 - sum(free) // 100, 50)


def free_amounts(node: NodeRoom, task: Task, _: Taken) -> int:
    """Return the mean part of CPU and memory that stays free, in hundredths."""
    return sum(_left_after(node, task)) // 20


def balanced_amounts(node: NodeRoom, task: Task, _: Taken) -> int:
    """Return how alike the parts of CPU and memory in use are, in hundredths."""
    cpu, memory = _left_after(node, task)
    return 100 - abs(cpu - memory) // 20


def _left_after(node: NodeRoom, task: Task) -> tuple[int, int]:
    """Return the thousandths of CPU and memory that stay free."""
    shape = node.shape
    cpu = (node.cpu - task.cpu) * WHOLE // max(1, shape.cpu)
    return cpu, (node.memory - task.memory) * WHOLE // max(1, shape.memory)


# --- figures of the devices that are taken -------------------------------------------------------


def use_of_taken(node: NodeRoom, _: Task, taken: Taken) -> int:
    """Return how much of the devices that it takes is in use."""
    return sum(WHOLE - left_of(node, number) for number in taken)


# --- figures that compare with the largest node ---------------------------------------------------


def left_after(largest: Shape) -> Figure:
    """Return a figure for what stays of CPU, memory and devices, in parts of the largest node."""

    def figure(node: NodeRoom, task: Task, _: Taken) -> int:
        cpu = (node.cpu - task.cpu) * WHOLE // max(1, largest.cpu)
        memory = (node.memory - task.memory) * WHOLE // max(1, largest.memory)
        devices = (sum(node.free) - task.amount) // max(1, largest.devices)
        return cpu + memory + devices

    return figure


def dot_product(largest: Shape) -> Figure:
    """Return a figure for how much of what the task asks most for the node has left."""

    def figure(node: NodeRoom, task: Task, _: Taken) -> int:
        cpu = node.cpu * task.cpu * WHOLE // max(1, largest.cpu) ** 2
        memory = node.memory * task.memory * WHOLE // max(1, largest.memory) ** 2
        devices = sum(node.free) * task.amount // (WHOLE * max(1, largest.devices) ** 2)
        return cpu + memory + devices

    return figure


_FULLEST: Final[Rule] = (("device in use", 1, use_of_taken),)


def general(largest: Shape) -> Mapping[str, ByUse]:
    """Return the strategies that need no typical tasks, by name."""
    strategies = (
        ByUse("first-fit"),
        ByUse("random", draws=True),
        # The default scores of kube-scheduler, which look at no devices, and the first devices.
        ByUse(
            "upstream",
            (("free amounts", 1, free_amounts), ("balanced amounts", 1, balanced_amounts)),
            draws=True,
        ),
        ByUse("best-fit", (("left after it", -1, left_after(largest)),), _FULLEST),
        ByUse("dot-product", (("dot product", -1, dot_product(largest)),), _FULLEST),
        ByUse("gpu-packing", (("occupied first", 1, occupied_first),), _FULLEST, draws=True),
        ByUse(
            "gpu-clustering",
            (("kinds alike", 2 * WHOLE, kinds_alike), ("free devices", -1, free_devices)),
            _FULLEST,
            draws=True,
        ),
    )
    return {each.name: each for each in strategies}
