"""Chooses among many nodes: equal nodes in equal states are judged once for equal tasks.

A change of a node costs one judgement for each kind of task that comes later, whatever the number
of nodes is. States that no node has any more are passed over when they come up, and dropped when
they are as many as the others.
"""

import bisect
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge, nsmallest
from itertools import chain, islice
from typing import Final, NamedTuple

from drawbridge.bounded_cache import BoundedCache
from drawbridge.choice.amounts import NodeRoom, Taken, Task, take
from drawbridge.choice.steps import Steps
from drawbridge.choice.strategy import ChoiceStrategy, JudgedNode

# Tasks of so many kinds are remembered, and so many judgements about them; the least recently used
# kind goes.
_MAX_KINDS: Final = 256
_MAX_JUDGEMENTS: Final = 262_144
# The last kinds are judged before they are asked for again.
_MAX_RECENT: Final = 8
# One kind counts as no more than this, so that the nodes of the largest clusters are remembered.
_MAX_COST: Final = _MAX_JUDGEMENTS // _MAX_RECENT - 1
# So many new states are remembered beside one for each that exists.
_MAX_ENTERED: Final = 1024
# So many states that no node has are kept beside those that nodes have.
_MAX_GONE: Final = 64
# So many states are merged; of more, so many equally good nodes are found without sorting all.
_FEW: Final = 32


class Chosen(NamedTuple):
    """The node of a task, and its devices."""

    node: str
    judged: JudgedNode


class Level(NamedTuple):
    """All nodes with one score; those of each state ascending."""

    score: int
    by_state: Sequence[Sequence[str]]


class _State:
    """A state of nodes, with the names of those that have it, ascending.

    There is one object for a state, so that no table of states compares what nodes have left.
    """

    __slots__ = ("nodes", "room")

    def __init__(self, room: NodeRoom) -> None:
        self.room = room
        self.nodes: list[str] = []


class _Judged:
    """The judgements about one kind of task; some are about states that no node has any more."""

    def __init__(self) -> None:
        self.seen = -1  # of the states that came into being
        self.left: list[_State] = []  # states to judge
        self.answers: dict[_State, JudgedNode] = {}
        self._scores: list[int] = []  # ascending
        self._states: dict[int, dict[_State, None]] = {}  # by score, in order

    def add(self, state: _State, judged: JudgedNode) -> None:
        """Enter the judgement about a state."""
        self.answers[state] = judged
        if judged.score not in self._states:
            bisect.insort(self._scores, judged.score)
            self._states[judged.score] = {}
        self._states[judged.score][state] = None

    def best_first(self) -> Iterator[tuple[int, Sequence[_State]]]:
        """Yield the states by score, the best first."""
        return ((score, [*self._states[score]]) for score in reversed([*self._scores]))

    def drop(self, gone: Iterable[_State]) -> None:
        """Drop the judgements about states."""
        for state in gone:
            score = self.answers.pop(state).score
            del self._states[score][state]
            if not self._states[score]:
                del self._states[score]
                del self._scores[bisect.bisect_left(self._scores, score)]


class NodeChooser:
    """The states of nodes by name, and what a strategy thinks of them."""

    def __init__(self, nodes: Mapping[str, NodeRoom], strategy: ChoiceStrategy) -> None:
        self._nodes: dict[str, NodeRoom] = {}
        self._strategy = strategy
        self._states: dict[NodeRoom, _State] = {}
        # States that no node has any more; some come back.
        self._gone: BoundedCache[NodeRoom, _State] = BoundedCache(_MAX_GONE)
        # The last states that came into being, in order, and how many came before them.
        self._entered: list[_State] = []
        self._forgotten = 0
        self._judged: BoundedCache[Task, _Judged] = BoundedCache(_MAX_KINDS, _MAX_JUDGEMENTS)
        # Whether all states are judged for the last kinds.
        self._is_judged = False
        for name, state in nodes.items():
            self.change(name, state)

    @property
    def nodes(self) -> Mapping[str, NodeRoom]:
        """The states of the nodes."""
        return self._nodes

    def use(self, strategy: ChoiceStrategy) -> None:
        """Judge all nodes anew with another strategy."""
        self._strategy = strategy
        recent = self._recent_tasks()
        self._is_judged = False
        self._judged.clear()
        for task in recent:
            self._judged.put(task, _Judged())

    def choose(self, task: Task, key: str) -> Chosen | None:
        """Return the best node for a task; of equal ones the first, or one drawn by the key."""
        self.judge_new(task, Steps())
        level = next(self.levels(task), None)
        if level is None:
            return None
        node = next(in_turn(self._strategy, level.by_state, key))
        return Chosen(node, self.judged(task, node))

    def judge_new(self, task: Task, steps: Steps) -> None:
        """Judge the new states for a task, one in a step.

        The next calls judge the states that are left.
        """
        judged = self._judged.get(task) or _Judged()
        if judged.seen == self._came and not judged.left:
            return
        if len(judged.answers) > 2 * len(self._states) + _MAX_GONE:
            judged.drop([each for each in judged.answers if not each.nodes])
        if judged.seen < self._forgotten:
            judged.left = [each for each in self._states.values() if each not in judged.answers]
        else:
            judged.left += self._entered[judged.seen - self._forgotten :]
        judged.seen = self._came
        while judged.left:
            state = judged.left[-1]
            if state.nodes and state not in judged.answers:
                if not steps.take():
                    break
                choice = self._strategy.judge(state.room, task)
                if choice is not None:
                    judged.add(state, choice)
            judged.left.pop()
        self._judged.put(task, judged, cost=min(len(judged.answers), _MAX_COST))
        self._is_judged &= not judged.left

    @property
    def _came(self) -> int:
        """How many states came into being."""
        return self._forgotten + len(self._entered)

    def catch_up(self, steps: Steps) -> None:
        """Judge the new states for the tasks of the last kinds, one in a step."""
        if self._is_judged:
            return
        for task in self._recent_tasks():
            self.judge_new(task, steps)
        self._is_judged = steps.left > 0

    def _recent_tasks(self) -> list[Task]:
        return [task for task, _ in self._judged.items()][-_MAX_RECENT:]

    def levels(self, task: Task) -> Iterator[Level]:
        """Yield the equally good nodes of those that are judged for a task, the best first."""
        judged = self._judged.get(task)
        for score, states in judged.best_first() if judged is not None else ():
            names = [state.nodes for state in states if state.nodes]
            if judged is not None and len(names) < len(states):
                judged.drop([state for state in states if not state.nodes])
            if names:
                yield Level(score, names)

    def judged(self, task: Task, node: str) -> JudgedNode:
        """Return the judgement about a node that is in a level."""
        judged = self._judged.get(task)
        assert judged is not None  # noqa: S101  # judged for the level
        return judged.answers[self._states[self._nodes[node]]]

    def place(self, task: Task, node: str, taken: Taken) -> None:
        """Put a task on a node."""
        self.change(node, take(self._nodes[node], task, taken))

    def change(self, node: str, state: NodeRoom | None) -> None:
        """Set the state of a node; None removes the node."""
        before = self._nodes.get(node)
        if state == before:
            return
        if before is not None:
            nodes = self._states[before].nodes
            del nodes[bisect.bisect_left(nodes, node)]
            if not nodes:
                self._gone.put(before, self._states.pop(before))
            del self._nodes[node]
        if state is not None:
            self._nodes[node] = state
            self._add_to_state(node, state)

    def _add_to_state(self, node: str, room: NodeRoom) -> None:
        state = self._states.get(room)
        if state is not None:
            bisect.insort(state.nodes, node)
            return
        state = self._states[room] = self._gone.pop(room) or _State(room)
        state.nodes.append(node)
        self._entered.append(state)
        self._is_judged = False
        if len(self._entered) > _MAX_ENTERED + len(self._states):
            half = len(self._entered) // 2
            del self._entered[:half]
            self._forgotten += half


def in_turn(strategy: ChoiceStrategy, by_state: Sequence[Sequence[str]], key: str) -> Iterator[str]:
    """Yield equally good nodes in the order in which a task with this key tries them."""
    if strategy.draws:
        nodes = sorted(chain(*by_state))
        first = draw(key, len(nodes))
        yield from chain(islice(nodes, first, None), islice(nodes, first))
    elif len(by_state) <= _FEW:
        yield from merge(*by_state)
    else:
        # Most callers need few of thousands, and those are among the first of each state.
        few = nsmallest(_FEW, chain.from_iterable(nodes[:_FEW] for nodes in by_state))
        yield from few
        if len(few) == _FEW:
            yield from islice(sorted(chain(*by_state)), _FEW, None)


def draw(key: str, number: int) -> int:
    """Return a number below `number`, the same for the same key."""
    return zlib.crc32(key.encode()) % number
