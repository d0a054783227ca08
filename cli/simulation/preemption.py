"""Reads what a simulation with preemption needs: running pods, priorities and budgets."""

from collections.abc import Iterator
from typing import TypeVar

from cli.simulation.input import SimulationInput
from drawbridge.documents.document import Document, LocatedFinding
from drawbridge.dra.decode import Reader
from drawbridge.ledger.disruption_budgets import disruption_budget_reader
from drawbridge.ledger.placing import Placer
from drawbridge.ledger.pods import FINISHED, Pod, pod_reader
from drawbridge.ledger.preemption import PreemptingPlacer, running_pod
from drawbridge.ledger.priorities import Priorities, priority_class_reader

T = TypeVar("T")


def preempting_placer(
    inputs: SimulationInput, placer: Placer, findings: list[LocatedFinding]
) -> PreemptingPlacer:
    """Return a placer that evicts pods of the input; adds findings about unreadable objects."""
    others = inputs.objects.others
    classes = tuple(_read(others, "PriorityClass", priority_class_reader(), findings))
    budgets = tuple(_read(others, "PodDisruptionBudget", disruption_budget_reader(), findings))
    priorities = Priorities(classes)
    running = []
    for pod in _running_pods(inputs):
        priority = priorities.find(pod)
        running.append(running_pod(pod, priority.value if priority else 0))
    return PreemptingPlacer(placer, running, budgets, priorities)


def _running_pods(inputs: SimulationInput) -> Iterator[Pod]:
    """Yield the pods of the cluster that have a node."""
    reader = pod_reader()
    for document, to_place in inputs.details.pods.values():
        pod = None if to_place else reader.read(document.value, ordinal=document.index)
        # Unreadable pods were reported when the pods to place were read.
        if isinstance(pod, Pod) and pod.spec.node_name and pod.status.phase not in FINISHED:
            yield pod


def _read(
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
