"""Which budgets hold for the pods of a kind, and which of them refuse an eviction."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from drawbridge.models.budgets import Budget, index_budgets
from drawbridge.models.pods import Health, ModelPod, PodKind

# Owners that the API server does not ask how many pods they want: they have no `scale`.
UNSCALED: Final = ("DaemonSet", "Job", "Pod")


class BudgetedKinds:
    """The budgets of each kind, and how many of its pods each of them wants.

    `bound_kinds` are those of which no pod can ever be evicted, also while all of them run.
    """

    def __init__(
        self, kinds: Sequence[PodKind], budgets: Sequence[Budget], pods: Iterable[ModelPod]
    ) -> None:
        selects = index_budgets(budgets)
        self._of = [selects(kind.namespace, kind.labels) for kind in kinds]
        self._under: list[list[int]] = [[] for _ in budgets]
        for number, of in enumerate(self._of):
            for budget in of:
                self._under[budget].append(number)
        unscaled = {e for e, kind in enumerate(kinds) if _is_unscaled(kind)}
        self._budgets = [
            each._replace(fails=each.fails or (each.asks_owners and not unscaled.isdisjoint(under)))
            for each, under in zip(budgets, self._under, strict=True)
        ]
        self._wanted = self._count_wanted(kinds, pods)
        self.bound_kinds = [number for number in range(len(kinds)) if self._is_bound(number)]

    def _count_wanted(self, kinds: Sequence[PodKind], pods: Iterable[ModelPod]) -> list[int]:
        """Return how many pods of each budget are wanted."""
        alive = Counter(each.kind for each in pods)
        wanted = [0] * len(self._budgets)
        owners = dict[tuple[int, str], list[int]]()
        for number, kind in enumerate(kinds):
            for budget in self._of[number]:
                owners.setdefault((budget, kind.full_owner), []).append(number)
        for (budget, _), owned in owners.items():
            asked = max(kinds[each].wanted for each in owned)
            wanted[budget] += max(asked, sum(alive[each] for each in owned))
        return wanted

    def _is_bound(self, kind: int) -> bool:
        budgets = self._of[kind]
        return len(budgets) > 1 or any(
            not self._budgets[each].can_ever_allow(self._wanted[each]) for each in budgets
        )

    def find_refusing(self, pod: ModelPod, ready: Mapping[int, int]) -> str:
        """Return the budgets that refuse an eviction; `ready` is the number of pods by kind."""
        budgets = self._of[pod.kind] if pod.health is not Health.UNGUARDED else ()
        if len(budgets) > 1:
            names = " and ".join(self._budgets[each].name for each in budgets)
            return f"budgets {names} both select it, so that no eviction is allowed"
        for budget in budgets:
            number = sum(ready[each] for each in self._under[budget])
            of = self._budgets[budget]
            allows = of.allows if pod.health is Health.READY else of.allows_unready
            if not allows(self._wanted[budget], number):
                return f"budget {self._budgets[budget].name}"
        return ""


def _is_unscaled(kind: PodKind) -> bool:
    return kind.owner_kind in UNSCALED and not kind.is_bare
