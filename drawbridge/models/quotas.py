"""Which new pods a ResourceQuota lets a namespace have: by number, and by units of plugins."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.dra.quantity import QuantityError, from_json
from drawbridge.models.pods import PodKind

if TYPE_CHECKING:
    from drawbridge.models.cluster import ModelCluster

_PODS: Final = ("pods", "count/pods")
_REQUESTS: Final = "requests."


class ModelQuota(NamedTuple):
    """A ResourceQuota: the most pods, and the most units of each name."""

    namespace: str
    pods: int | None = None
    units: Mapping[str, int] = {}

    def allows(self, pods: int, used: Mapping[str, int], more: Mapping[str, int]) -> bool:
        """Whether a pod that asks for `more` can be created beside `pods` others."""
        if self.pods is not None and pods >= self.pods:
            return False
        return all(used.get(e, 0) + n <= self.units[e] for e, n in more.items() if e in self.units)


def read_quota(value: Value) -> ModelQuota:
    """Read a ResourceQuota. One with scopes counts other pods, and is taken as without limits."""
    namespace = f"{get_value(value, ('metadata', 'namespace')) or 'default'}"
    spec = as_mapping(get_value(value, ("spec",)))
    if spec.get("scopes") or spec.get("scopeSelector"):
        return ModelQuota(namespace)
    hard = {key: _read(text) for key, text in as_mapping(spec.get("hard")).items()}
    limits = [n for key in _PODS if (n := hard.get(key)) is not None]
    units = {
        key.removeprefix(_REQUESTS): number
        for key, number in hard.items()
        if key.startswith(_REQUESTS) and "/" in key and number is not None
    }
    return ModelQuota(namespace, min(limits, default=None), units)


def _read(text: Value) -> int | None:
    try:
        return from_json(text).floor()
    except QuantityError:
        return None


def sum_units(parts: Iterable[Mapping[str, int]]) -> Counter[str]:
    """Return the sum of what pods ask for."""
    whole = Counter[str]()
    for each in parts:
        whole.update(each)
    return whole


def allows_another(cluster: "ModelCluster", kind: PodKind) -> bool:
    """Whether the quotas of a namespace leave room. One pod in place of another always has.

    Quotas by units count pods without claims, and with them where a class has the name.
    """
    quotas = [each for each in cluster.quotas if each.namespace == kind.namespace]
    if not quotas:
        return True
    kinds = [cluster.kinds[each.kind] for each in cluster.pods.values()]
    units = [each.units for each in kinds if each.namespace == kind.namespace]
    return all(each.allows(len(units), sum_units(units), kind.units) for each in quotas)
