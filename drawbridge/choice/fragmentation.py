"""Fragmentation gradient descent: a task goes where it makes the least of what is free useless.

For a typical task, what is free on a node is a fragment if the task does not fit there, and so are
the free parts that are smaller than what it asks of a device. The fragmentation of a node is the
mean over the typical tasks. For a task without devices all is a fragment. Where tasks take parts of
devices of other kinds, a free part without enough of these near it is a fragment, too.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from drawbridge.bounded_cache import BoundedCache
from drawbridge.choice.amounts import WHOLE, NodeRoom, Taken, Task, suits, take
from drawbridge.choice.options import is_large, near_enough, options
from drawbridge.choice.strategy import MAX_REMEMBERED, JudgedNode, Part
from drawbridge.choice.typical import TaskKind, TypicalTasks

# The loss of a whole device or more gives about a quarter of the full score.
_LEVELS: Final = 100


class FragmentationDescent:
    """The published rule: changes of fragmentation as whole numbers to 100, equal ones drawn."""

    name: Final = "fgd"
    draws: Final = True

    def __init__(self, typical: TypicalTasks) -> None:
        self._typical = typical
        self._kinds: dict[str, tuple[TaskKind, ...]] = {}
        self._useful: BoundedCache[NodeRoom, int] = BoundedCache(MAX_REMEMBERED)
        # A score of s needs a change of ln(s / (100 - s)) devices.
        self._limits = [
            math.ceil(WHOLE * typical.total * math.log(each / (_LEVELS - each)))
            for each in range(1, _LEVELS)
        ]

    def judge(self, node: NodeRoom, task: Task) -> JudgedNode | None:
        """Return the devices with the least growth of fragmentation."""
        if not suits(node, task):
            return None
        best: JudgedNode | None = None
        for taken in options(node, task):
            gain = self._useful_amount(take(node, task, taken))
            if best is None or gain > best.score:
                best = JudgedNode(gain, taken)
        if best is None:
            return None
        change = best.score - self._before(node) + task.amount * self._typical.total
        return JudgedNode(bisect_right(self._limits, change), best.taken)

    def parts(self, node: NodeRoom, task: Task, taken: Taken) -> tuple[Part, ...]:
        """Return the score as one part; the fragments are in `fragments`."""
        change = self.fragments(node) - self.fragments(take(node, task, taken))
        return (Part("less fragments", bisect_right(self._limits, change)),)

    def fragments(self, node: NodeRoom) -> int:
        """Return the fragmentation of a node in thousandths of a device, times the total weight."""
        return sum(node.free) * self._typical.total - self._useful_amount(node)

    def _before(self, node: NodeRoom) -> int:
        useful = self._useful.get(node)
        if useful is None:
            useful = self._useful_amount(node)
            self._useful.put(node, useful)
        return useful

    def _useful_amount(self, node: NodeRoom) -> int:
        label = node.shape.label
        kinds = self._kinds.get(label)
        if kinds is None:
            kinds = self._kinds[label] = self._typical.kinds(label)
        return sum(_useful_for(kind, node) for kind in kinds)


def _useful_for(kind: TaskKind, node: NodeRoom) -> int:
    useful = number = 0
    beside = kind.others and not is_large(node)
    for left in near_enough(node, kind.others) if beside else node.free:
        if left >= kind.share:
            useful += left
            number += 1
    if number < kind.devices:
        return 0
    return useful * _weight(kind.members, node.cpu, node.memory)


def _weight(members: Sequence[tuple[int, int, int]], cpu: int, memory: int) -> int:
    total = 0
    for asked_cpu, asked_memory, weight in members:
        if asked_cpu > cpu:
            break
        if asked_memory <= memory:
            total += weight
    return total
