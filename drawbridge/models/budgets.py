"""Which evictions the API server allows, by PodDisruptionBudgets.

A budget counts what the owners of its pods want, and how many pods are ready. An eviction of a pod
that several budgets select is always refused.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping

_HUNDRED = 100


class Budget(NamedTuple):
    """A PodDisruptionBudget: what it selects, and the least number of pods that must be ready.

    `match_labels` is None if the budget has no selector, and then it selects no pod. At most one of
    `least` and `most_away` is set: a number, or a share with `%`. One that `fails` allows nothing,
    because the API server cannot count what its pods are a share of. One that `frees_unready` lets
    all pods go that are not ready.
    """

    name: str
    namespace: str
    match_labels: Mapping[str, str] | None
    requirements: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    least: str = ""
    most_away: str = ""
    fails: bool = False
    frees_unready: bool = False

    @property
    def keys(self) -> set[str]:
        """The labels that it selects by."""
        return {*(self.match_labels or ()), *(key for key, *_ in self.requirements)}

    @property
    def asks_owners(self) -> bool:
        """Whether it is about what the owners of its pods want, and not about a number of pods."""
        return bool(self.most_away) or self.least.endswith("%")

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether the budget is about a pod with these labels."""
        return (
            namespace == self.namespace
            and self.match_labels is not None
            and all(labels.get(key) == text for key, text in self.match_labels.items())
            and all(_meets(labels.get(key), how, of) for key, how, of in self.requirements)
        )

    def must_run(self, wanted: int) -> int:
        """Return how many of the wanted pods must run."""
        if self.most_away:
            return max(0, wanted - _round_up(self.most_away, wanted))
        return _round_up(self.least, wanted)

    @property
    def _is_counted(self) -> bool:
        return bool(self.least or self.most_away) and not self.fails

    def allows(self, wanted: int, ready: int) -> bool:
        """Whether one of the ready pods may be evicted; none, by a budget without a number."""
        return self._is_counted and ready - 1 >= self.must_run(wanted)

    def allows_unready(self, wanted: int, ready: int) -> bool:
        """Whether a pod may be evicted that is not ready, beside so many that are."""
        enough = self._is_counted and ready >= max(1, self.must_run(wanted))
        return self.frees_unready or enough

    def can_ever_allow(self, wanted: int) -> bool:
        """Whether a pod may be evicted while all others run."""
        return self.allows(wanted, wanted)


def index_budgets(
    budgets: Iterable[Budget],
) -> Callable[[str, Mapping[str, str]], list[int]]:
    """Return a function that tells the positions of the budgets about a pod, in their order.

    Of budgets with `matchLabels`, it tries those whose rarest one the pod has.
    """
    numbered = [*enumerate(budgets)]
    labels_of = {
        at: [(budget.namespace, label) for label in (budget.match_labels or {}).items()]
        for at, budget in numbered
    }
    uses = Counter(chain.from_iterable(labels_of.values()))
    positions: dict[tuple[str, tuple[str, str] | None], list[tuple[int, Budget]]] = {}
    for at, budget in numbered:
        key = min(labels_of[at], key=uses.__getitem__, default=(budget.namespace, None))
        positions.setdefault(key, []).append((at, budget))

    def find(namespace: str, labels: Mapping[str, str]) -> list[int]:
        tried = (positions.get((namespace, label), ()) for label in (None, *labels.items()))
        chosen = chain.from_iterable(tried)
        return sorted(at for at, budget in chosen if budget.selects(namespace, labels))

    return find


def read_budget(value: Value) -> Budget:
    """Read a PodDisruptionBudget."""
    spec = as_mapping(get_value(value, ("spec",)))
    selector = as_mapping(spec.get("selector"))
    labels = as_mapping(selector.get("matchLabels")) if spec.get("selector") is not None else None
    requirements = tuple(
        (
            f"{each.get('key')}",
            f"{each.get('operator')}",
            tuple(map(str, as_list(each.get("values")))),
        )
        for each in map(as_mapping, as_list(selector.get("matchExpressions")))
    )
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    return Budget(
        f"{get_value(value, ('metadata', 'name'))}",
        f"{get_value(value, ('metadata', 'namespace')) or 'default'}",
        None if labels is None else {key: f"{text}" for key, text in labels.items()},
        requirements,
        "" if least is None else f"{least}",
        "" if most is None else f"{most}",
        any(map(_tells_failure, as_list(get_value(value, ("status", "conditions"))))),
        spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
    )


def _tells_failure(condition: Value) -> bool:
    return as_mapping(condition).get("reason") == "SyncFailed"


def _meets(text: str | None, how: str, values: Sequence[str]) -> bool:
    if how == "In":
        return text in values
    if how == "NotIn":
        return text not in values
    return (text is not None) is (how == "Exists")


def _round_up(number: str, wanted: int) -> int:
    """Return a number, or a share of the wanted pods, rounded up as the API server does."""
    digits = number.removesuffix("%")
    if not digits.isdecimal() or len(digits) > 9:  # no such budget exists
        return 0
    whole = int(digits)
    return -(-whole * wanted // _HUNDRED) if number.endswith("%") else whole
