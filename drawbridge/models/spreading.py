"""Which nodes a pod may have beside the pods that run: anti-affinity, and spread over topology."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class SpreadRule(NamedTuple):
    """Pods with these labels, and by how many more one domain may have; 0 for one pod in each."""

    topology: str
    labels: tuple[tuple[str, str], ...]
    skew: int = 0


class PodNear(NamedTuple):
    """The labels and the node of a running pod."""

    namespace: str
    labels: Mapping[str, str]
    node: str


def read_rules(pod: Value) -> tuple[SpreadRule, ...]:
    """Read the rules of a pod that keep it off nodes; those by other selectors are left out."""
    return tuple(_read(pod))


def _read(pod: Value) -> Iterator[SpreadRule]:
    spec = as_mapping(get_value(pod, ("spec",)))
    apart = as_list(get_value(spec.get("affinity"), ("podAntiAffinity", _REQUIRED)))
    for rule in map(as_mapping, apart):
        if labels := _labels(rule):
            yield SpreadRule(f"{rule.get('topologyKey')}", labels)
    for rule in map(as_mapping, as_list(spec.get("topologySpreadConstraints"))):
        skew, labels = rule.get("maxSkew"), _labels(rule)
        if labels and isinstance(skew, int) and rule.get("whenUnsatisfiable") == "DoNotSchedule":
            yield SpreadRule(f"{rule.get('topologyKey')}", labels, max(1, skew))


def _labels(rule: Mapping[str, Value]) -> tuple[tuple[str, str], ...]:
    labels = as_mapping(get_value(rule.get("labelSelector"), ("matchLabels",)))
    return tuple(sorted((key, f"{text}") for key, text in labels.items()))


def find_kept_apart(
    rules: Iterable[SpreadRule],
    namespace: str,
    running: Iterable[PodNear],
    labels_of: Mapping[str, Mapping[str, str]],
    allowed: frozenset[str],
) -> Callable[[str], bool]:
    """Return what tells whether a rule keeps a pod off a node. `allowed` nodes count for skews."""
    running = [each for each in running if each.namespace == namespace]
    counted = [(rule, _count(rule, running, labels_of, allowed)) for rule in rules]

    def is_kept_off(node: str) -> bool:
        for rule, counts in counted:
            domain = labels_of[node].get(rule.topology)
            if not rule.skew:
                if domain is not None and counts[domain]:
                    return True
            elif domain is None or counts[domain] + 1 - min(counts.values()) > rule.skew:
                return True
        return False

    return is_kept_off


def _count(
    rule: SpreadRule,
    running: Iterable[PodNear],
    labels_of: Mapping[str, Mapping[str, str]],
    allowed: frozenset[str],
) -> Counter[str]:
    domains = (labels_of[node].get(rule.topology) for node in allowed if node in labels_of)
    counts = Counter(dict.fromkeys((each for each in domains if each is not None), 0))
    for pod in running:
        domain = labels_of.get(pod.node, {}).get(rule.topology)
        is_meant = all(pod.labels.get(key) == text for key, text in rule.labels)
        if is_meant and domain is not None and (not rule.skew or domain in counts):
            counts[domain] += 1
    return counts
