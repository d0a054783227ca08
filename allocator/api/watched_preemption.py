"""Watches what preemption depends on: priorities, budgets and the pods that run."""

from collections.abc import Coroutine, Iterable, Iterator
from typing import Any

from drawbridge.cluster.cache import Cache
from drawbridge.cluster.resources import DISRUPTION_BUDGETS, PRIORITY_CLASSES
from drawbridge.cluster.session import Session
from drawbridge.ledger.disruption_budgets import DisruptionBudget, disruption_budget_reader
from drawbridge.ledger.pods import FINISHED, Pod
from drawbridge.ledger.priorities import PriorityClass, priority_class_reader
from drawbridge.process.object_cache import watch_objects


class PreemptionCaches:
    """Implements `allocator.api.calls.WatchedPreemption`; `run` keeps it in sync."""

    def __init__(self, session: Session, pods: Cache[Pod]) -> None:
        self._pods = pods
        self._budgets = watch_objects(session, DISRUPTION_BUDGETS, disruption_budget_reader())
        self._classes = watch_objects(session, PRIORITY_CLASSES, priority_class_reader())

    def run(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Return the watches."""
        return (each.run() for each in (self._budgets, self._classes))

    def find_problem(self) -> str:
        """Return why priorities or budgets are not known, or an empty string."""
        for cache in (self._budgets, self._classes):
            if not cache.synced:
                return f"{cache.resource.plural} are not synced: {cache.problem}"
        return ""

    def running(self) -> Iterable[Pod]:
        """Return the pods with claims that have a node."""
        pods = (each.value for each in self._pods.all())
        return (
            pod
            for pod in pods
            if pod.spec.resource_claims and pod.spec.node_name and pod.status.phase not in FINISHED
        )

    def budgets(self) -> Iterable[DisruptionBudget]:
        """Return the PodDisruptionBudgets."""
        return (each.value for each in self._budgets.all())

    def classes(self) -> Iterable[PriorityClass]:
        """Return the PriorityClasses."""
        return (each.value for each in self._classes.all())
