"""PodDisruptionBudgets, as the preemption of kube-scheduler respects them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from drawbridge.dra.decode import Metadata, Object, Reader
from drawbridge.dra.device import Requirement
from drawbridge.dra.nodes import meets_requirement


class LabelledPod(Protocol):
    """A pod, as budgets see it."""

    @property
    def namespace(self) -> str:
        """The namespace."""

    @property
    def pod_name(self) -> str:
        """The name in the namespace."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels."""


P = TypeVar("P", bound=LabelledPod)
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


class BudgetSelector(msgspec.Struct, frozen=True, rename="camel"):
    """Labels and requirements that must all match."""

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether the selector has requirements and `labels` meet all of them."""
        if not self.match_labels and not self.match_expressions:
            return False  # the scheduler ignores a budget that selects every pod
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            match_expression.operator in _OPERATORS and meets_requirement(match_expression, labels)
            for match_expression in self.match_expressions
        )


class DisruptionBudgetSpec(msgspec.Struct, frozen=True):
    """The spec of a PodDisruptionBudget."""

    selector: BudgetSelector | None = None


class DisruptionBudgetStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What a budget allows now. The pods in `disrupted_pods` are counted already."""

    disruptions_allowed: int = 0
    disrupted_pods: Mapping[str, str | None] = {}


class DisruptionBudget(Object, frozen=True, rename="camel", kw_only=True):
    """A PodDisruptionBudget."""

    metadata: Metadata = Metadata("")
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()

    def counts(self, pod: LabelledPod) -> bool:
        """Tell whether an eviction of a pod is charged to the budget."""
        selector = self.spec.selector
        return (
            selector is not None
            and (self.metadata.namespace or "default") == pod.namespace
            and selector.matches(pod.labels)
            and pod.pod_name not in self.status.disrupted_pods
        )


def split_by_budgets(
    pods: Iterable[P], budgets: Sequence[DisruptionBudget]
) -> tuple[list[P], list[P]]:
    """Return the pods whose eviction violates a budget, and the others.

    The evictions are charged in the order of `pods`, also those that violate a budget.
    """
    allowed = [each.status.disruptions_allowed for each in budgets]
    violating: list[P] = []
    others: list[P] = []
    for pod in pods:
        charged = [i for i, each in enumerate(budgets) if each.counts(pod)]
        for i in charged:
            allowed[i] -= 1
        (violating if any(allowed[i] < 0 for i in charged) else others).append(pod)
    return violating, others


def disruption_budget_reader() -> Reader[DisruptionBudget]:
    """Return a reader of PodDisruptionBudgets."""
    return Reader("PodDisruptionBudget", {"policy/v1": DisruptionBudget}, lambda wire: wire)
