"""Chooses among many nodes: equal nodes in equal states are judged once for equal tasks.

A change of a node costs one judgement for each kind of task that comes later, whatever the number
of nodes is.
"""

import bisect
import heapq
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

from drawbridge.bounded_cache import BoundedCache
from drawbridge.choice.amounts import NodeRoom, Taken, Task, take
from drawbridge.choice.strategy import ChoiceStrategy, JudgedNode

# Tasks of so many kinds are remembered, the least recently used goes.
_MAX_KINDS: Final = 256
# So many new states are remembered beside one for each that exists.
_MAX_ENTERED: Final = 1024
UNLIMITED: Final = 1 << 62


class Chosen(NamedTuple):
    """The node of a task, and its devices."""

    node: str
    judged: JudgedNode


class Level(NamedTuple):
    """Nodes with one score, ascending."""

    score: int
    nodes: Iterable[str]


class _Judged:
    """The judgements about one kind of task, for the states that exist."""

    def __init__(self) -> None:
        self.seen = -1  # of the states that came into being
        self.left: list[NodeRoom] = []  # states to judge
        self.answers: dict[NodeRoom, JudgedNode] = {}
        self.scores: dict[NodeRoom, int] = {}


class NodeChooser:
    """The states of nodes by name, and what a strategy thinks of them."""

    def __init__(self, nodes: Mapping[str, NodeRoom], strategy: ChoiceStrategy) -> None:
        self._nodes: dict[str, NodeRoom] = {}
        self._strategy = strategy
        # The names of the nodes in each state, ascending.
        self._holders: dict[NodeRoom, list[str]] = {}
        # The last states that came into being, in order, and how many came before them.
        self._entered: list[NodeRoom] = []
        self._forgotten = 0
        self._judged: BoundedCache[Task, _Judged] = BoundedCache(_MAX_KINDS)
        for name, state in nodes.items():
            self.change(name, state)

    @property
    def nodes(self) -> Mapping[str, NodeRoom]:
        """The states of the nodes."""
        return self._nodes

    def use(self, strategy: ChoiceStrategy) -> None:
        """Judge all nodes anew with another strategy."""
        self._strategy = strategy
        self._judged.clear()

    def choose(self, task: Task, key: str) -> Chosen | None:
        """Return the best node for a task; of equal ones the first, or one drawn by the key."""
        level = next(self.levels(task, 1), None)
        if level is None:
            return None
        node = next(iter(in_turn(self._strategy, level.nodes, key)))
        return Chosen(node, self.judged(task, node))

    def levels(
        self, task: Task, limit: int = UNLIMITED, judgements: int = UNLIMITED
    ) -> Iterator[Level]:
        """Yield the equally good nodes, the best first, until there are so many nodes.

        Judges so many new states at most. The next calls judge the states that are left.
        """
        scores = self._current(task, judgements).scores
        for score, states in _by_score(scores, limit):
            yield Level(score, heapq.merge(*(self._holders[state] for state in states)))

    def judged(self, task: Task, node: str) -> JudgedNode:
        """Return the judgement about a node that is in a level."""
        judged = self._judged.get(task)
        assert judged is not None  # noqa: S101  # judged for the level
        return judged.answers[self._nodes[node]]

    def place(self, task: Task, node: str, taken: Taken) -> None:
        """Put a task on a node."""
        self.change(node, take(self._nodes[node], task, taken))

    def change(self, node: str, state: NodeRoom | None) -> None:
        """Set the state of a node; None removes the node."""
        before = self._nodes.get(node)
        if state == before:
            return
        if before is not None:
            holders = self._holders[before]
            holders.remove(node)
            if not holders:
                del self._holders[before]
            del self._nodes[node]
        if state is not None:
            self._nodes[node] = state
            self._enter(node, state)

    def _enter(self, node: str, state: NodeRoom) -> None:
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

    def _current(self, task: Task, judgements: int) -> _Judged:
        """Return the judgements about a task, with those of new states and without those gone."""
        judged = self._judged.get(task)
        if judged is None:
            judged = _Judged()
            self._judged.put(task, judged)
        for gone in [state for state in judged.scores if state not in self._holders]:
            del judged.scores[gone], judged.answers[gone]
        if judged.seen < self._forgotten:
            judged.left = [state for state in self._holders if state not in judged.scores]
        else:
            judged.left += self._entered[judged.seen - self._forgotten :]
        judged.seen = self._forgotten + len(self._entered)
        now, judged.left = judged.left[-judgements:], judged.left[:-judgements]
        self._judge(judged, task, now)
        return judged

    def _judge(self, judged: _Judged, task: Task, states: Sequence[NodeRoom]) -> None:
        for state in states:
            if state in self._holders and state not in judged.scores:
                choice = self._strategy.judge(state, task)
                if choice is not None:
                    judged.scores[state], judged.answers[state] = choice.score, choice


def _by_score(
    scores: Mapping[NodeRoom, int], limit: int
) -> Iterator[tuple[int, Sequence[NodeRoom]]]:
    """Yield the states by score, the best first; so many states are enough."""
    best = heapq.nlargest(limit, scores.values()) if limit < len(scores) else scores.values()
    lowest = min(best, default=0)
    levels: dict[int, list[NodeRoom]] = {}
    for state, score in scores.items():
        if score >= lowest:
            levels.setdefault(score, []).append(state)
    return ((score, levels[score]) for score in sorted(levels, reverse=True))


def in_turn(strategy: ChoiceStrategy, nodes: Iterable[str], key: str) -> Iterable[str]:
    """Return equally good nodes in the order in which a task with this key tries them."""
    if not strategy.draws:
        return nodes
    names = list(nodes)
    first = draw(key, len(names))
    return chain(islice(names, first, None), islice(names, first))


def draw(key: str, number: int) -> int:
    """Return a number below `number`, the same for the same key."""
    return zlib.crc32(key.encode()) % number
