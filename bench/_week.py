"""Plays weeks in which jobs arrive and end, and what fits nowhere waits.

In each step jobs end, then those that wait are tried in order, with the new ones behind them.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from drawbridge.choice.amounts import NodeRoom, Taken, Task, give_back
from drawbridge.choice.cluster import NodeChooser, in_turn
from drawbridge.choice.steps import Steps
from drawbridge.choice.strategy import ChoiceStrategy


class Job(NamedTuple):
    """A task, and how many others of its application can run on its node; 0 for any number."""

    task: Task
    application: int = 0
    most_on_node: int = 0


class Arrival(NamedTuple):
    """A job, and how many steps it runs."""

    job: Job
    steps: int


class _Running(NamedTuple):
    ends: int
    number: int
    node: str
    job: Job
    taken: Taken


class Waited(NamedTuple):
    """How long the jobs waited, in steps, and how many still do at the end."""

    jobs: Sequence[tuple[Job, int]]
    at_end: int


def play(
    nodes: Mapping[str, NodeRoom],
    strategy: ChoiceStrategy,
    steps: Sequence[Sequence[Arrival]],
    observe: Callable[[Iterable[NodeRoom]], None],
) -> Waited:
    """Play the steps, and show the nodes at the end of each."""
    week = _Week(nodes, strategy)
    for step, arrived in enumerate(steps):
        week.end_jobs(step)
        week.start_jobs(step, arrived)
        observe(week.nodes.chooser.nodes.values())
    still = [(job, len(steps) - since) for since, _, (job, _) in week.waiting]
    return Waited([*week.waited, *still], len(still))


class JobsOfNodes:
    """Nodes with what runs on them, and how many jobs of each application."""

    def __init__(self, nodes: Mapping[str, NodeRoom], strategy: ChoiceStrategy) -> None:
        self.chooser = NodeChooser(nodes, strategy)
        self._strategy = strategy
        self._number: dict[int, Counter[str]] = {}  # of jobs, by application and node

    def full_nodes(self, job: Job) -> tuple[str, ...]:
        """Return the nodes that have as many jobs of the application as they can."""
        numbers = self._number.get(job.application, Counter())
        full = (node for node, number in numbers.items() if number >= job.most_on_node)
        return tuple(sorted(full)) if job.most_on_node else ()

    def choose(self, job: Job, key: str) -> str | None:
        """Return the best node for a job."""
        self.chooser.judge_new(job.task, Steps())
        full = frozenset(self.full_nodes(job))
        for level in self.chooser.levels(job.task):
            for node in in_turn(self._strategy, level.by_state, key):
                if node not in full:
                    return node
        return None

    def start(self, job: Job, node: str) -> Taken:
        """Start a job on a node that was chosen for it; return its devices."""
        taken = self.chooser.judged(job.task, node).taken
        self.chooser.place(job.task, node, taken)
        self._number.setdefault(job.application, Counter())[node] += 1
        return taken

    def end(self, job: Job, node: str, taken: Taken) -> None:
        """End a job."""
        self._number[job.application][node] -= 1
        self.chooser.change(node, give_back(self.chooser.nodes[node], job.task, taken))


class _Week:
    def __init__(self, nodes: Mapping[str, NodeRoom], strategy: ChoiceStrategy) -> None:
        self.nodes = JobsOfNodes(nodes, strategy)
        self.waiting: list[tuple[int, int, Arrival]] = []
        self.waited: list[tuple[Job, int]] = []
        self._running: list[_Running] = []
        self._number = 0

    def end_jobs(self, step: int) -> None:
        """End what has run as long as it does."""
        while self._running and self._running[0].ends <= step:
            _, _, node, job, taken = heapq.heappop(self._running)
            self.nodes.end(job, node, taken)

    def start_jobs(self, step: int, arrived: Iterable[Arrival]) -> None:
        """Start what fits, in the order of arrival."""
        for arrival in arrived:
            self._number += 1
            self.waiting.append((step, self._number, arrival))
        still, failed = [], set[Job]()
        for since, number, (job, length) in self.waiting:
            node = None if job in failed else self.nodes.choose(job, f"task-{number}")
            if node is None:
                failed.add(job)
                still.append((since, number, Arrival(job, length)))
                continue
            taken = self.nodes.start(job, node)
            heapq.heappush(self._running, _Running(step + length, number, node, job, taken))
            self.waited.append((job, step - since))
        self.waiting = still
