"""Reports what a pod still selects by node labels that go with a device plugin.

These are terms that no ask of the pod takes, and topology keys: a node without the label belongs to
no domain of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from drawbridge.documents.paths import Path, format_path
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import SourceField
from drawbridge.translate.legacy.codes import LABEL_KEPT
from drawbridge.translate.legacy.label_publishers import find_publisher
from drawbridge.translate.legacy.pod_view import PodView, annotation_path, format_value

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_PENDING: Final = "the pod stays pending"
_NO_EFFECT: Final = "the rule has no effect"
_LOSES: Final = "every node satisfies it"
# What becomes of an affinity between pods whose topology key no node has.
_BETWEEN_PODS: Final = (
    ("podAffinity", _REQUIRED, _PENDING),
    ("podAffinity", _PREFERRED, _NO_EFFECT),
    ("podAntiAffinity", _REQUIRED, _NO_EFFECT),
    ("podAntiAffinity", _PREFERRED, _NO_EFFECT),
)
# Annotations of queues whose value is a topology key, as of November 2026.
_ANNOTATIONS: Final = (
    ("kueue.x-k8s.io/podset-required-topology", _PENDING),
    ("kueue.x-k8s.io/podset-preferred-topology", _NO_EFFECT),
    ("kueue.x-k8s.io/podset-slice-required-topology", _PENDING),
    ("kai.scheduler/topology-required-placement", _PENDING),
    ("kai.scheduler/topology-preferred-placement", _NO_EFFECT),
)


class UsedLabel(NamedTuple):
    """A node label that a pod names, where, and what becomes of the pod when it is gone."""

    key: str
    where: str
    then: str
    topology: bool = False


def list_used_labels(pod: PodView) -> list[UsedLabel]:
    """List the labels of the pod that go with a device plugin."""
    listed: Iterable[UsedLabel] = (*_list_terms(pod.spec), *_list_topology_keys(pod))
    used = list(listed)
    return [each for each in used if find_publisher(each.key)]


def report_used(labels: Iterable[UsedLabel], why: str = "") -> Iterator[Finding]:
    """Yield a finding for each label that the pod keeps."""
    for label in labels:
        publisher = find_publisher(label.key)
        name = publisher.name if publisher else "the device plugin"
        what = "the topology key" if label.topology else "a condition on"
        message = f"{why}the pod keeps {what} {label.key}, which {name} publishes beside the plugin"
        yield LABEL_KEPT.at(label.where, f"{message}; without the label, {label.then}")


def report_kept(fields: Iterable[SourceField], why: str) -> Iterator[Finding]:
    """Yield a finding for each label in what the pod requires of its node, if it keeps that."""
    for field in fields:
        spec: dict[str, Value] = {f"{field.name}": field.value}
        for token in reversed(field.path[1:]):
            spec = {f"{token}": spec}
        yield from report_used(filter(lambda e: find_publisher(e.key), _list_terms(spec)), why)


def _list_terms(spec: Mapping[str, Value]) -> Iterator[UsedLabel]:
    path: Path = ("spec", "nodeSelector")
    for key in as_mapping(spec.get("nodeSelector")):
        yield UsedLabel(key, format_path((*path, key)), _PENDING)
    node = as_mapping(as_mapping(spec.get("affinity")).get("nodeAffinity"))
    path = ("spec", "affinity", "nodeAffinity")
    terms = as_list(as_mapping(node.get(_REQUIRED)).get("nodeSelectorTerms"))
    for number, term in enumerate(terms):
        at: Path = (*path, _REQUIRED, "nodeSelectorTerms", number)
        yield from _list_expressions(term, at, _PENDING)
    for number, preferred in enumerate(as_list(node.get(_PREFERRED))):
        at = (*path, _PREFERRED, number, "preference")
        yield from _list_expressions(as_mapping(preferred).get("preference"), at, _NO_EFFECT)


def _list_expressions(term: Value, path: Path, then: str) -> Iterator[UsedLabel]:
    for number, written in enumerate(as_list(as_mapping(term).get("matchExpressions"))):
        expression = as_mapping(written)
        key = expression.get("key")
        if isinstance(key, str):
            loses = expression.get("operator") in ("NotIn", "DoesNotExist")
            where = format_path((*path, "matchExpressions", number))
            yield UsedLabel(key, where, _LOSES if loses else then)


def _list_topology_keys(pod: PodView) -> Iterator[UsedLabel]:
    affinity = as_mapping(pod.spec.get("affinity"))
    for part, strength, then in _BETWEEN_PODS:
        inner = () if strength == _REQUIRED else ("podAffinityTerm",)
        for number, raw in enumerate(as_list(as_mapping(affinity.get(part)).get(strength))):
            term = as_mapping(raw)
            at: Path = ("spec", "affinity", part, strength, number, *inner)
            yield from _topology_key(as_mapping(term.get(inner[0])) if inner else term, at, then)
    for number, raw in enumerate(as_list(pod.spec.get("topologySpreadConstraints"))):
        constraint = as_mapping(raw)
        always = constraint.get("whenUnsatisfiable") == "ScheduleAnyway"
        at = ("spec", "topologySpreadConstraints", number)
        yield from _topology_key(constraint, at, _NO_EFFECT if always else _PENDING)
    for name, then in _ANNOTATIONS:
        if name in pod.annotations:
            key = pod.annotations[name]
            yield UsedLabel(format_value(key), annotation_path(name), then, topology=True)


def _topology_key(term: Mapping[str, Value], path: Path, then: str) -> Iterator[UsedLabel]:
    key = term.get("topologyKey")
    if isinstance(key, str):
        yield UsedLabel(key, format_path((*path, "topologyKey")), then, topology=True)
