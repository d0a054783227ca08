"""Strategies that look at what is in use: first fit, packed, spread, and those of other projects.

Each has a rule for nodes and a rule for the devices of a node. A rule is a list of figures with
weights; the score is their sum. Figures are thousandths, before the task takes anything.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from drawbridge.choice.amounts import WHOLE, NodeRoom, Shape, Taken, Task, options, suits
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


def cpu_in_use(node: NodeRoom, _: Task, __: Taken) -> int:
    """Return how much of the CPU is taken."""
    return (node.shape.cpu - node.cpu) * WHOLE // max(1, node.shape.cpu)


def memory_in_use(node: NodeRoom, _: Task, __: Taken) -> int:
    """Return how much of the memory is taken."""
    return (node.shape.memory - node.memory) * WHOLE // max(1, node.shape.memory)


def tasks_alike(node: NodeRoom, task: Task, _: Taken) -> int:
    """Return how many of the devices in use hold only tasks with parts as large as this one's."""
    in_use = [WHOLE - left for left in node.free if left < WHOLE]
    if not in_use or not task.share:
        return 0
    return sum(used % task.share == 0 for used in in_use) * WHOLE // len(in_use)


def occupied_first(node: NodeRoom, _: Task, taken: Taken) -> int:
    """Rate devices in use above free devices, and these above those of an idle node."""
    if any(node.free[number] < WHOLE for number in taken):
        return 2 * WHOLE
    return 0 if node.is_idle else WHOLE


# --- figures of the devices that are taken -------------------------------------------------------


def use_of_taken(node: NodeRoom, _: Task, taken: Taken) -> int:
    """Return how much of the devices that it takes is in use."""
    return sum(WHOLE - node.free[number] for number in taken)


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
_EMPTIEST: Final[Rule] = (("device in use", -1, use_of_taken),)


def general(largest: Shape) -> Mapping[str, ByUse]:
    """Return the strategies that need no typical tasks, by name."""
    strategies = (
        ByUse("first-fit"),
        ByUse("random", draws=True),
        ByUse("packed", (("devices in use", 1, devices_in_use),), _FULLEST),
        ByUse("spread", (("devices in use", -1, devices_in_use),), _EMPTIEST),
        ByUse("packed-nodes", (("devices in use", 1, devices_in_use),), _EMPTIEST),
        ByUse("best-fit", (("left after it", -1, left_after(largest)),), _FULLEST),
        ByUse("dot-product", (("dot product", -1, dot_product(largest)),), _FULLEST),
        ByUse(
            "gpu-packing",
            (
                ("occupied first", 2 * WHOLE, occupied_first),
                ("device in use", 1, use_of_taken),
            ),
            _FULLEST,
        ),
        ByUse(
            "gpu-clustering",
            (("tasks alike", 2 * WHOLE, tasks_alike), ("devices in use", 1, devices_in_use)),
            _FULLEST,
        ),
    )
    return {each.name: each for each in strategies}
