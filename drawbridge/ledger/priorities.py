"""Priorities of pods, as the admission plugin Priority of the API server resolves them."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from drawbridge.dra.decode import Object, Reader
from drawbridge.ledger.pods import Pod

NEVER: Final = "Never"
# Every cluster has these two classes.
_SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class PriorityClass(Object, frozen=True, rename="camel", kw_only=True):
    """A PriorityClass."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class Priority(NamedTuple):
    """The priority of a pod, and whether the pod may preempt others."""

    value: int = 0
    may_preempt: bool = True


class Priorities:
    """The PriorityClasses of a cluster."""

    def __init__(self, classes: Iterable[PriorityClass] = ()) -> None:
        self._classes: Mapping[str, PriorityClass] = {each.metadata.name: each for each in classes}
        defaults = [each for each in self._classes.values() if each.global_default]
        # Of several default classes, which a race can create, the one with the lowest value counts.
        self._default = min(defaults, key=lambda each: each.value, default=None)

    def find(self, pod: Pod) -> Priority | None:
        """Return the priority of a pod; None if its PriorityClass does not exist.

        A pod of the API server has its priority in the spec, and one of a manifest only the class.
        """
        policy, name = pod.spec.preemption_policy, pod.spec.priority_class_name
        if pod.spec.priority is not None:
            return Priority(pod.spec.priority, policy != NEVER)
        if name in _SYSTEM:
            return Priority(_SYSTEM[name], policy != NEVER)
        priority = self._classes.get(name) if name else self._default
        if priority is None:
            return None if name else Priority(0, policy != NEVER)
        return Priority(priority.value, (policy or priority.preemption_policy) != NEVER)

    def value_of(self, pod: Pod) -> int:
        """Return the value of the priority of a pod; 0 if its PriorityClass does not exist."""
        priority = self.find(pod)
        return priority.value if priority else 0


def priority_class_reader() -> Reader[PriorityClass]:
    """Return a reader of PriorityClasses."""
    return Reader("PriorityClass", {"scheduling.k8s.io/v1": PriorityClass})
