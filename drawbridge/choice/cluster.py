"""Chooses among many nodes: equal nodes in equal states are judged once for equal tasks.

A change of a node costs one judgement for each kind of task that comes later, whatever the number
of nodes is.
"""

import bisect
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from drawbridge.choice.amounts import NodeRoom, Taken, Task, take
from drawbridge.choice.strategy import ChoiceStrategy, JudgedNode

# Tasks of so many kinds are remembered, the oldest goes.
_MAX_KINDS: Final = 256


class Chosen(NamedTuple):
    """The node of a task, by number, and its devices."""

    node: int
    judged: JudgedNode


class _Judged:
    """The judgements about one kind of task, for the states that exist."""

    def __init__(self) -> None:
        self.seen = 0  # of the log of changes
        self.answers: dict[NodeRoom, JudgedNode] = {}
        self.scores: dict[NodeRoom, int] = {}


class NodeChooser:
    """The states of nodes, and what a strategy thinks of them."""

    def __init__(self, nodes: Sequence[NodeRoom], strategy: ChoiceStrategy) -> None:
        self.nodes = list(nodes)
        self._strategy = strategy
        # The numbers of the nodes in each state, ascending.
        self._holders: dict[NodeRoom, list[int]] = {}
        # The states that came into being, in order.
        self._log: list[NodeRoom] = []
        self._judged: dict[Task, _Judged] = {}
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
        if holders is None:
            self._holders[state] = [node]
            self._log.append(state)
        else:
            bisect.insort(holders, node)

    def _current(self, task: Task) -> _Judged:
        """Return the judgements about a task, with those of new states and without those gone."""
        judged = self._judged.get(task)
        if judged is None:
            if len(self._judged) >= _MAX_KINDS:
                del self._judged[next(iter(self._judged))]
            judged = self._judged[task] = _Judged()
            new: Sequence[NodeRoom] = tuple(self._holders)
        else:
            new = self._log[judged.seen :]
        judged.seen = len(self._log)
        for gone in [state for state in judged.scores if state not in self._holders]:
            del judged.scores[gone], judged.answers[gone]
        for state in new:
            if state in self._holders and state not in judged.scores:
                choice = self._strategy.judge(state, task)
                if choice is not None:
                    judged.scores[state], judged.answers[state] = choice.score, choice
        return judged


def draw(key: str, number: int) -> int:
    """Return a number below `number`, the same for the same key."""
    return zlib.crc32(key.encode()) % number
