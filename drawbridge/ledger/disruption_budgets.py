"""PodDisruptionBudgets, as the preemption of kube-scheduler and the API server respect them.

Preemption deletes pods. It ignores a budget that selects every pod, and violates budgets as a last
resort. The API server refuses an eviction that violates a budget, or of a pod with several.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

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

    @property
    def is_empty(self) -> bool:
        """Whether it selects every pod."""
        return not self.match_labels and not self.match_expressions

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether `labels` meet all requirements."""
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

    def selects(self, pod: LabelledPod) -> bool:
        """Tell whether the budget is about a pod."""
        selector = self.spec.selector
        return (
            selector is not None
            and (self.metadata.namespace or "default") == pod.namespace
            and selector.matches(pod.labels)
        )

    def counts(self, pod: LabelledPod) -> bool:
        """Tell whether the preemption of a pod is charged to the budget."""
        selector = self.spec.selector
        return (
            selector is not None
            and not selector.is_empty
            and self.selects(pod)
            and pod.pod_name not in self.status.disrupted_pods
        )


def split_by_budgets(
    pods: Iterable[P], budgets: Sequence[DisruptionBudget]
) -> tuple[list[P], list[P]]:
    """Return the pods whose preemption violates a budget, and the others.

    The preemptions are charged in the order of `pods`, also those that violate a budget.
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


def charge_budgets(
    budgets: Iterable[DisruptionBudget], gone: Sequence[LabelledPod]
) -> Iterator[DisruptionBudget]:
    """Yield budgets as they are after these pods were preempted."""
    for budget in budgets:
        left = max(0, budget.status.disruptions_allowed - sum(map(budget.counts, gone)))
        yield replace(budget, status=replace(budget.status, disruptions_allowed=left))


def has_several(pod: LabelledPod, budgets: Iterable[DisruptionBudget]) -> bool:
    """Tell whether several budgets select a pod, so that the API server does not evict it."""
    return sum(each.selects(pod) for each in budgets) > 1


def can_evict_all(pods: Sequence[LabelledPod], budgets: Iterable[DisruptionBudget]) -> bool:
    """Tell whether the API server evicts all of these pods, of which none has several budgets."""
    return all(
        sum(map(each.selects, pods)) <= max(0, each.status.disruptions_allowed) for each in budgets
    )


def disruption_budget_reader() -> Reader[DisruptionBudget]:
    """Return a reader of PodDisruptionBudgets."""
    return Reader("PodDisruptionBudget", {"policy/v1": DisruptionBudget})
