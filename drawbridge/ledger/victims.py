"""Chooses the pods that a pod with a higher priority preempts, as kube-scheduler does.

On each node, all candidates are removed first. Then as many as possible are kept: first those
whose eviction violates a PodDisruptionBudget, then the others, each by priority, by the work that
its eviction loses, and by age. Of all nodes, the one with the fewest violations, the lowest highest
priority and the least lost work is chosen, then as kube-scheduler does. Where nothing is known
about the work, all is as kube-scheduler decides.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from drawbridge.ledger.disruption_budgets import DisruptionBudget, LabelledPod, split_by_budgets

T = TypeVar("T")
# Later than every time that an API server writes: a pod that has not started is the newest.
_NOT_STARTED: Final = "~"
# Keeps the sum of priorities from being lower with more pods of a negative priority.
_OFFSET: Final = 1 << 31


class RunningPod(msgspec.Struct, frozen=True):
    """A pod on a node. `started` is a time as the API server writes it, or empty.

    `held` is what it requests of the node, or empty if that does not count. `interval` are the
    seconds between its checkpoints, and `lost` the device-seconds that its eviction costs, with all
    pods of its `group`, the key of its gang.
    """

    namespace: str
    pod_name: str
    node: str
    priority: int = 0
    started: str = ""
    terminating: bool = False
    labels: Mapping[str, str] = {}
    held: Mapping[str, int] = {}
    group: str = ""
    interval: int | None = None
    lost: int = 0

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.pod_name}"


class NodeVictims(msgspec.Struct, frozen=True):
    """The pods to evict on a node, the most important one first."""

    node: str
    pods: tuple[RunningPod, ...]
    violations: int = 0


def find_victims(
    node: str,
    candidates: Iterable[RunningPod],
    budgets: Sequence[DisruptionBudget],
    fits_without: Callable[[Collection[RunningPod]], bool],
) -> NodeVictims | None:
    """Return which candidates must be evicted so that a pod fits; None if it does not fit then.

    No victim is superfluous: with any one of them, the pod does not fit.
    """
    ordered = sorted(candidates, key=importance)
    if not fits_without(ordered):
        return None
    violating, others = split_by_budgets(ordered, budgets)
    kept_first = (*violating, *others)
    removed = remove_fewest(ordered, kept_first, fits_without)
    violations = sum(each in violating for each in removed)
    return NodeVictims(node, tuple(removed), violations)


def remove_fewest(
    candidates: Iterable[T], kept_first: Iterable[T], fits_without: Callable[[Collection[T]], bool]
) -> list[T]:
    """Return which candidates to evict, in their order; `kept_first` are kept in its order.

    Without all of them, the pod fits.
    """
    steps = search_fewest(candidates, kept_first)
    try:
        removed = next(steps)
        while True:
            removed = steps.send(fits_without(removed))
    except StopIteration as end:
        results: list[T] = end.value
        return results


def search_fewest(
    candidates: Iterable[T], kept_first: Iterable[T]
) -> Generator[list[T], bool, list[T]]:
    """Yield candidates to remove, receive whether the pod fits then, and return the fewest.

    A pod that fits without some pods fits without more of them, so the first one that must go is
    found in few steps, from the end: usually the least important pod has enough.
    """
    removed, left = list(candidates), list(kept_first)
    while left:
        # The first `kept` of those that are left can be kept, the first `tried` cannot.
        kept, tried, step, attempt = 0, len(left) + 1, 1, len(left)
        while tried - kept > 1:
            if (yield _without(removed, left[:attempt])):
                kept = attempt
            else:
                tried = attempt
            attempt = (kept + tried) // 2 if kept else max(tried - step, 1)
            step *= 2
        removed = _without(removed, left[:kept])
        left = left[kept + 1 :]
    return removed


def _without(some: Iterable[T], others: Collection[T]) -> list[T]:
    identities = set(map(id, others))
    return [each for each in some if id(each) not in identities]


def choose_victims(candidates: Iterable[NodeVictims]) -> NodeVictims | None:
    """Return the victims of the best node; of equal nodes the first by name."""
    left = sorted(candidates, key=lambda each: each.node)
    if not left:
        return None
    best = min(map(_cost, left))
    left = [each for each in left if _cost(each) == best]
    # The most important victim has run for the shortest time.
    return max(left, key=_start_of_most_important)


def _cost(victims: NodeVictims) -> tuple[int, int, int, int, int]:
    lost = {each.group or each.name: each.lost for each in victims.pods}
    priorities = [each.priority for each in victims.pods]
    total = sum(each + _OFFSET for each in priorities)
    highest = max(priorities, default=-_OFFSET)
    return (victims.violations, highest, sum(lost.values()), total, len(priorities))


def _start_of_most_important(victims: NodeVictims) -> str:
    return victims.pods[0].started or _NOT_STARTED if victims.pods else _NOT_STARTED


def importance(pod: RunningPod) -> tuple[int, int, str, str]:
    """Sort more important pods first: by priority, by lost work, then by age."""
    return (-pod.priority, -pod.lost, pod.started or _NOT_STARTED, pod.name)


_: type[LabelledPod] = RunningPod
