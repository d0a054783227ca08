"""Watches what preemption depends on: priorities, budgets and the pods that run."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from allocator.api.calls import WatchedPreemption
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.cache_set import CacheSet
from drawbridge.cluster.resources import DISRUPTION_BUDGETS, PRIORITY_CLASSES
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import Accounting
from drawbridge.dra.decode import Metadata
from drawbridge.dra.device import Requirement
from drawbridge.ledger.disruption_budgets import (
    BudgetSelector,
    DisruptionBudget,
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    disruption_budget_reader,
)
from drawbridge.ledger.pods import FINISHED, Pod
from drawbridge.ledger.priorities import PriorityClass, priority_class_reader
from drawbridge.memory_shares import MemoryShares
from drawbridge.process.object_cache import watch_objects

# Every label set meets it. Preemption ignores a budget whose selector is empty.
_EVERY_POD: Final = BudgetSelector(
    match_expressions=(Requirement("drawbridge.dev/left-out", "NotIn"),)
)


class PreemptionCaches(CacheSet):
    """The caches of budgets and priorities, beside the pods of the allocator."""

    def __init__(self, session: Session, pods: Cache[Pod], shares: MemoryShares) -> None:
        super().__init__()
        self._pods = pods
        budgets = watch_objects(
            session,
            DISRUPTION_BUDGETS,
            disruption_budget_reader(),
            keep=without_unread_fields,
            accounting=Accounting(shares, reduce=reduce_budget),
        )
        self._budgets = self.add(budgets)
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


def without_unread_fields(budget: DisruptionBudget) -> DisruptionBudget:
    """Return a budget with what preemption reads of it."""
    metadata, status = budget.metadata, budget.status
    disrupted: dict[str, str | None] = dict.fromkeys(status.disrupted_pods)
    return replace(
        budget,
        metadata=Metadata(metadata.name, metadata.namespace),
        status=replace(status, disrupted_pods=disrupted),
    )


def reduce_budget(budget: DisruptionBudget) -> DisruptionBudget:
    """Return a budget that forbids at least what this one forbids, whatever it selects.

    It is about each pod of the namespace, and allows no eviction.
    """
    selector = budget.spec.selector
    if selector is not None and not selector.is_empty:
        selector = _EVERY_POD
    spec, status = DisruptionBudgetSpec(selector), DisruptionBudgetStatus()
    return DisruptionBudget(metadata=budget.metadata, spec=spec, status=status)
