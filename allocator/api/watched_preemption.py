"""Watches what preemption depends on: priorities, budgets and the pods that run."""

from collections.abc import Iterable

from allocator.api.calls import WatchedPreemption
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.cache_set import CacheSet
from drawbridge.cluster.resources import DISRUPTION_BUDGETS, PRIORITY_CLASSES
from drawbridge.cluster.session import Session
from drawbridge.ledger.disruption_budgets import DisruptionBudget, disruption_budget_reader
from drawbridge.ledger.pods import FINISHED, Pod
from drawbridge.ledger.priorities import PriorityClass, priority_class_reader
from drawbridge.process.object_cache import watch_objects


class PreemptionCaches(CacheSet):
    """The caches of budgets and priorities, beside the pods of the allocator."""

    def __init__(self, session: Session, pods: Cache[Pod]) -> None:
        super().__init__()
        self._pods = pods
        self._budgets = self.add(
            watch_objects(session, DISRUPTION_BUDGETS, disruption_budget_reader())
        )
        self._classes = self.add(watch_objects(session, PRIORITY_CLASSES, priority_class_reader()))

    def find_problem(self) -> str:
        """Return why priorities or budgets are not known, or an empty string."""
        return next(iter(self.find_missing()), "")

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


_: type[WatchedPreemption] = PreemptionCaches
