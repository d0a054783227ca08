"""Chooses among many nodes: equal nodes in equal states are judged once for equal tasks.

A change of a node costs one judgement for each kind of task that comes later, whatever the number
of nodes is.
"""

import bisect
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from drawbridge.bounded_cache import BoundedCache
from drawbridge.choice.amounts import NodeRoom, Taken, Task, take
from drawbridge.choice.strategy import ChoiceStrategy, JudgedNode

# Tasks of so many kinds are remembered, the least recently used goes.
_MAX_KINDS: Final = 256
# So many new states are remembered beside one for each that exists.
_MAX_ENTERED: Final = 1024


class Chosen(NamedTuple):
    """The node of a task, by number, and its devices."""

    node: int
    judged: JudgedNode


class _Judged:
    """The judgements about one kind of task, for the states that exist."""

    def __init__(self) -> None:
        self.seen = -1  # of the states that came into being
        self.answers: dict[NodeRoom, JudgedNode] = {}
        self.scores: dict[NodeRoom, int] = {}


class NodeChooser:
    """The states of nodes, and what a strategy thinks of them."""

    def __init__(self, nodes: Sequence[NodeRoom], strategy: ChoiceStrategy) -> None:
        self.nodes = list(nodes)
        self._strategy = strategy
        # The numbers of the nodes in each state, ascending.
        self._holders: dict[NodeRoom, list[int]] = {}
        # The last states that came into being, in order, and how many came before them.
        self._entered: list[NodeRoom] = []
        self._forgotten = 0
        self._judged: BoundedCache[Task, _Judged] = BoundedCache(_MAX_KINDS)
        for number, state in enumerate(self.nodes):
            self._enter(number, state)

    def choose(self, task: Task, key: str) -> Chosen | None:
        """Return the best node for a task; of equal ones the first, or one drawn by the key."""
        judged = self._current(task)
        if not judged.scores:
            return None
        best = max(judged.scores.values())
        states = [state for state, score in judged.scores.items() if score == best]
        if self._strategy.draws:
            nodes = sorted(number for state in states for number in self._holders[state])
            node = nodes[draw(key, len(nodes))]
        else:
            node = min(self._holders[state][0] for state in states)
        return Chosen(node, judged.answers[self.nodes[node]])

    def place(self, task: Task, node: int, taken: Taken) -> None:
        """Put a task on a node."""
        self.change(node, take(self.nodes[node], task, taken))

    def change(self, node: int, state: NodeRoom) -> None:
        """Replace the state of a node."""
        before = self.nodes[node]
        if state == before:
            return
        holders = self._holders[before]
        holders.remove(node)
        if not holders:
            del self._holders[before]
        self.nodes[node] = state
        self._enter(node, state)

    def _enter(self, node: int, state: NodeRoom) -> None:
        holders = self._holders.get(state)
        if holders is not None:
            bisect.insort(holders, node)
            return
        self._holders[state] = [node]
        self._entered.append(state)
        if len(self._entered) > _MAX_ENTERED + len(self._holders):
            half = len(self._entered) // 2
            del self._entered[:half]
            self._forgotten += half

    def _current(self, task: Task) -> _Judged:
        """Return the judgements about a task, with those of new states and without those gone."""
        judged = self._judged.get(task)
        if judged is None:
            judged = _Judged()
            self._judged.put(task, judged)
        for gone in [state for state in judged.scores if state not in self._holders]:
            del judged.scores[gone], judged.answers[gone]
        for state in self._entered_since(judged.seen):
            if state in self._holders and state not in judged.scores:
                choice = self._strategy.judge(state, task)
                if choice is not None:
                    judged.scores[state], judged.answers[state] = choice.score, choice
        judged.seen = self._forgotten + len(self._entered)
        return judged

    def _entered_since(self, seen: int) -> Sequence[NodeRoom]:
        """Return the states that came into being after so many; all if that is not known."""
        if seen < self._forgotten:
            return tuple(self._holders)
        return self._entered[seen - self._forgotten :]


def draw(key: str, number: int) -> int:
    """Return a number below `number`, the same for the same key."""
    return zlib.crc32(key.encode()) % number
