"""Counts the pods that a workload object runs at the same time, for each of its pod templates.

The numbers are fields of the objects around a template: `replicas` of a Deployment or of one group
of a JobSet, `parallelism` and `completions` of a Job, `numOfHosts` of a Ray worker group.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from drawbridge.documents.paths import Path, get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.translate.manifests.workloads import Place, group_kind

# Objects with one pod on each node that their template selects.
_ON_EACH_NODE: Final = frozenset(
    {("apps", "DaemonSet"), ("apps.kruise.io", "DaemonSet"), ("apps.kruise.io", "BroadcastJob")}
)
_GROUPS: Final = ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
_WORKERS: Final = "workerTemplate"
_NAMES: Final = ("name", "groupName")
_ROLES: Final = ("leaderTemplate", "entryTemplate", "workerTemplate", "submitterPodTemplate")
_WORKER_REPLICAS: Final = "workerReplicas"
_PARTS: Final = ("headGroupSpec", "predictor", "transformer", "explainer")


class PodCount(NamedTuple):
    """The pods of one template: `number` in total, or one on each node that they can use.

    `name` tells the templates of one object apart; empty if there is only one.
    """

    number: int
    on_each_node: bool = False
    name: str = ""


def count_pods(value: Value, place: Place) -> PodCount:
    """Return how many pods of a template run at the same time; a missing number is its default."""
    fields = as_mapping(value)
    name = _name_template(value, place.path)
    if place.is_pod:
        return PodCount(1)
    if group_kind(fields) in _ON_EACH_NODE:
        return PodCount(1, on_each_node=True, name=name)
    number = 1
    for surrounding in _surrounding(value, place.path):
        number *= _factor(surrounding)
    if group_kind(fields) == _GROUPS:
        number *= _members(fields, place.path)
    if place.path[-1] == _WORKERS:
        role = as_mapping(get_value(value, place.path[:-1]))
        number *= _number_of(role, _WORKER_REPLICAS, 1)
    return PodCount(number, name=name)


def _surrounding(value: Value, path: Path) -> Iterator[Mapping[str, Value]]:
    """Yield the objects from the root of the workload to the parent of the template."""
    for length in range(len(path)):
        surrounding = get_value(value, path[:length])
        if isinstance(surrounding, dict):
            yield surrounding
    # Some templates are the object that has the number: the predictor of an InferenceService.
    last = get_value(value, path)
    if isinstance(last, dict) and "containers" in last:
        yield last


def _factor(surrounding: Mapping[str, Value]) -> int:
    least = _number_of(surrounding, "minReplicas", 1)
    number = _number_of(surrounding, "replicas", least) * _number_of(surrounding, "numOfHosts", 1)
    if "parallelism" in surrounding or "completions" in surrounding:
        parallel = _number_of(surrounding, "parallelism", 1)
        number *= min(parallel, _number_of(surrounding, "completions", parallel))
    return number


def _members(value: Mapping[str, Value], path: Path) -> int:
    """Return the pods of a template in one group of a LeaderWorkerSet."""
    fields = as_mapping(get_value(dict(value), ("spec", "leaderWorkerTemplate")))
    if path[-1:] != (_WORKERS,):
        return 1
    leaders = 1 if isinstance(fields.get("leaderTemplate"), dict) else 0
    return max(0, _number_of(fields, "size", 1) - leaders)


def _number_of(fields: Mapping[str, Value], name: str, default: int) -> int:
    number = fields.get(name)
    is_number = isinstance(number, int) and not isinstance(number, bool)
    return max(0, number) if is_number and isinstance(number, int) else default


def _name_template(value: Value, path: Path) -> str:
    """Return the names on the path of a template: of its groups, its roles and its template."""
    names = []
    for length, step in enumerate(path, 1):
        if isinstance(step, int):
            surrounding = as_mapping(get_value(value, path[:length]))
            names_of_step = map(surrounding.get, _NAMES)
            names.append(next((text for text in names_of_step if isinstance(text, str)), f"{step}"))
        elif step.endswith("ReplicaSpecs") and length < len(path):
            names.append(f"{path[length]}".lower())
        elif step in _ROLES:
            names.append(step.removesuffix("Template").removesuffix("Pod"))
        elif step in _PARTS:
            names.append(step.removesuffix("GroupSpec"))
    return "-".join(filter(None, names))
