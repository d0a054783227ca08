"""Reads what evictions depend on: the running pods, priorities and budgets."""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from cli.simulation.input import SimulationInput
from drawbridge.documents.document import Document, LocatedFinding
from drawbridge.dra.decode import Reader
from drawbridge.ledger.disruption_budgets import DisruptionBudget, disruption_budget_reader
from drawbridge.ledger.node_resources import held_amounts
from drawbridge.ledger.placing import Placer
from drawbridge.ledger.preemption import PreemptingPlacer, running_pod
from drawbridge.ledger.priorities import Priorities, priority_class_reader
from drawbridge.ledger.victims import RunningPod

T = TypeVar("T")


class Evictable(NamedTuple):
    """The pods that run, with their priorities, and the budgets that protect them."""

    running: tuple[RunningPod, ...]
    budgets: tuple[DisruptionBudget, ...]
    priorities: Priorities


def preempting_placer(
    inputs: SimulationInput, placer: Placer, findings: list[LocatedFinding]
) -> PreemptingPlacer:
    """Return a placer that evicts pods of the input; adds findings about unreadable objects."""
    running, budgets, priorities = find_evictable(inputs, findings)
    return PreemptingPlacer(placer, {each.name: each for each in running}, budgets, priorities)


def find_evictable(inputs: SimulationInput, findings: list[LocatedFinding]) -> Evictable:
    """Read who can be evicted; adds findings about unreadable objects."""
    others = inputs.objects.others
    classes = tuple(_decode(others, "PriorityClass", priority_class_reader(), findings))
    budgets = tuple(_decode(others, "PodDisruptionBudget", disruption_budget_reader(), findings))
    priorities = Priorities(classes)
    running = []
    for pod in inputs.running or ():
        priority = priorities.find(pod)
        running.append(running_pod(pod, priority.value if priority else 0, held_amounts(pod)))
    return Evictable(tuple(running), budgets, priorities)


def _decode(
    documents: tuple[Document, ...], kind: str, reader: Reader[T], findings: list[LocatedFinding]
) -> Iterator[T]:
    for document in documents:
        if not isinstance(document.value, dict) or document.value.get("kind") != kind:
            continue
        value = reader.read(document.value, ordinal=document.index)
        if isinstance(value, tuple):
            findings += [document.locate_finding(problem) for problem in value]
        else:
            yield value
