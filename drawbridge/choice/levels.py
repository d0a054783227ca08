"""Strategies by levels: which nodes come first, and which devices of a node, with weights.

The score of a node is the sum of its figures times their weights: how much of its devices, of each
weighted capacity, of its CPU and of its memory is in use, and how near each other the devices are
that a task takes. Figures are thousandths, before the task takes anything. Devices are compared by
the same figures; near devices come first.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from drawbridge.bounded_cache import BoundedCache
from drawbridge.choice.amounts import WHOLE, NodeRoom, Taken, Task, suits
from drawbridge.choice.by_use import cpu_in_use, devices_in_use, memory_in_use
from drawbridge.choice.nearness import Groups, nearest, nearness_of
from drawbridge.choice.options import able_devices, options, with_others
from drawbridge.choice.strategy import JudgedNode, Part
from drawbridge.dra.rules import (
    CPU_WEIGHT,
    DEVICES_WEIGHT,
    MEMORY_WEIGHT,
    NEAR_WEIGHT,
    OTHER_WEIGHTS,
    PackingPolicy,
)

# The weights of a strategy, by name, in order.
ChosenWeights: TypeAlias = tuple[tuple[str, int], ...]
# What makes devices near: their NUMA node, or also the links between them.
Near: TypeAlias = Literal["numa", "links"]
# Without other weights, all of the devices count once, and being near more than their use.
_DEFAULT: Final = ((DEVICES_WEIGHT, 1),)
_NEAR_DEFAULT: Final = 10
# The nearest devices of so many sets are remembered.
_MAX_NEAREST: Final = 4096


class Levels(msgspec.Struct, frozen=True):
    """What comes first: of nodes, of the devices of a node, and whether near devices do."""

    nodes: PackingPolicy
    devices: PackingPolicy
    near: Near | None = None


LEVELS: Final = {
    "packed": Levels("packed", "packed"),
    "spread": Levels("spread", "spread"),
    "packed-nodes": Levels("packed", "spread"),
    "spread/packed": Levels("spread", "packed"),
    "numa": Levels("packed", "spread", "numa"),
    "spread/numa": Levels("spread", "spread", "numa"),
    "topology-aware": Levels("packed", "spread", "links"),
    "spread/topology-aware": Levels("spread", "spread", "links"),
}
_SIGNS: Final = {"packed": 1, "spread": -1}


def capacities_of(weights: ChosenWeights) -> tuple[str, ...]:
    """Return the capacities that have a weight, in order."""
    return tuple(name for name, weight in weights if weight and name not in OTHER_WEIGHTS)


class ByLevels:
    """A strategy by the figures of nodes and devices."""

    draws: Final = False

    def __init__(self, name: str, weights: ChosenWeights = ()) -> None:
        """Compare by the levels of a name; `NodeRoom.used` is by the capacities of the weights."""
        self.name: Final = name
        levels, given = LEVELS[name], dict(weights or _DEFAULT)
        self._nodes, self._devices = _SIGNS[levels.nodes], _SIGNS[levels.devices]
        self._near = levels.near
        self._of_devices = given.get(DEVICES_WEIGHT, 0)
        self._of_capacities = tuple((each, given[each]) for each in capacities_of(weights))
        self._of_near = given.get(NEAR_WEIGHT, _NEAR_DEFAULT) if levels.near else 0
        self._nearest: BoundedCache[tuple[Groups, Taken, int], Taken] = BoundedCache(_MAX_NEAREST)
        self._of_cpu, self._of_memory = given.get(CPU_WEIGHT, 0), given.get(MEMORY_WEIGHT, 0)

    def judge(self, node: NodeRoom, task: Task) -> JudgedNode | None:
        """Return the devices that come first, and the score of the node with them."""
        taken = self._choose(node, task) if suits(node, task) else None
        if taken is None:
            return None
        return JudgedNode(sum(each.value for each in self._parts(node, task, taken)), taken)

    def parts(self, node: NodeRoom, task: Task, taken: Taken) -> tuple[Part, ...]:
        """Return the figures of the node, with their weights."""
        return tuple(self._parts(node, task, taken))

    def device_score(self, node: NodeRoom, number: int) -> int:
        """Return the score of a device of the node."""
        return self._devices * self._use(node, number)

    def _choose(self, node: NodeRoom, task: Task) -> Taken | None:
        able = able_devices(node, task)
        if len(able) < task.devices:
            return None
        able.sort(key=lambda each: -self.device_score(node, each))
        if self._of_near and node.shape.near and task.devices:
            taken = self._nearest_of(node.shape.near, tuple(able), task.devices)
        else:
            taken = tuple(sorted(able[: task.devices]))
        if not task.others:
            return taken
        return with_others(node, task, taken) or next(options(node, task), None)

    def _nearest_of(self, groups: Groups, able: Taken, count: int) -> Taken:
        taken = self._nearest.get((groups, able, count))
        if taken is None:
            taken = nearest(groups, able, count, keeps=self._near == "links")
            self._nearest.put((groups, able, count), taken)
        return taken

    def _use(self, node: NodeRoom, number: int) -> int:
        """Return how much of a device is in use, with the weights."""
        use = self._of_devices * (WHOLE - node.free[number])
        for place, (_, weight) in enumerate(self._of_capacities):
            use += weight * node.used[number][place]
        return use

    def _parts(self, node: NodeRoom, task: Task, taken: Taken) -> Iterator[Part]:
        sign = self._nodes
        if self._of_devices:
            yield Part(
                "devices in use", sign * self._of_devices * devices_in_use(node, task, taken)
            )
        for place, (name, weight) in enumerate(self._of_capacities):
            yield Part(f"{name} in use", sign * weight * _mean([each[place] for each in node.used]))
        if self._of_cpu:
            yield Part("CPU in use", sign * self._of_cpu * cpu_in_use(node, task, taken))
        if self._of_memory:
            in_use = memory_in_use(node, task, taken)
            yield Part("memory of the node in use", sign * self._of_memory * in_use)
        if self._of_near:
            nearness = nearness_of(node.shape.near, taken[: task.devices])
            yield Part("devices near each other", self._of_near * nearness)


def _mean(values: Sequence[int]) -> int:
    return sum(values) // len(values) if values else 0
