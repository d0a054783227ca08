"""Whose pods are translated: the namespace's label, then selectors, then a share of owners.

A pod can only opt out. Everything is said by the pod and its namespace, so that no look-up is
needed and every replica says the same. Knows nothing of devices.
"""

import enum
import hashlib
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from config.model import LabelRequirement, LabelSelector, Operator, Scope
from dra.finding import Finding
from dra.names import TRANSLATE_LABEL
from registration.admission_codes import LABEL_UNKNOWN, POD_LABEL_UNKNOWN

# Who makes ReplicaSets names them after itself and a hash that is on the pod as well.
_HASHES: Final = {
    "pod-template-hash": "Deployment",
    "rollouts-pod-template-hash": "Rollout",
}
# Who makes other owners of pods says by a label of the pod who it is.
_LABELS: Final = {
    "jobset.sigs.k8s.io/jobset-name": "JobSet",
    "leaderworkerset.sigs.k8s.io/name": "LeaderWorkerSet",
}
_TIMED: Final = re.compile(r"(.+)-\d{8,}")
_SHARES: Final = 2**32


class Mode(enum.StrEnum):
    """What is done for the pods of a namespace."""

    ENFORCE = "enforce"
    REPORT = "report"
    OFF = "off"


class InScope(NamedTuple):
    """The mode of a namespace, and what there is to say of how it came about."""

    mode: Mode
    findings: tuple[Finding, ...] = ()


class Owner(msgspec.Struct, frozen=True):
    """An owner as a pod names it."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """What of a pod's metadata decides about its scope."""

    name: str = ""
    generate_name: str = ""
    labels: Mapping[str, str] | None = None
    owner_references: tuple[Owner, ...] | None = None


def of_namespace(name: str, labels: Mapping[str, str], scope: Scope) -> InScope:
    """Say what is done in a namespace."""
    if name in scope.exclude_namespaces:
        return InScope(Mode.OFF)
    said = labels.get(TRANSLATE_LABEL)
    if said is None:
        selector = scope.namespace_selector
        chosen = selector is not None and matches(selector, labels)
        return InScope(Mode.ENFORCE if chosen else Mode.OFF)
    if said in set(Mode):
        return InScope(Mode(said))
    told = LABEL_UNKNOWN.at(
        f"metadata.labels[{TRANSLATE_LABEL}]",
        f"the label of namespace {name} is {said or 'empty'}; nothing is translated there",
        object=f"Namespace/{name}",
    )
    return InScope(Mode.OFF, (told,))


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Tell whether labels match, as Kubernetes decides it."""
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _matches(each, labels) for each in selector.match_expressions
    )


def _matches(one: LabelRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(one.key)
    match one.operator:
        case Operator.IN:
            return value is not None and value in one.values
        case Operator.NOT_IN:
            return value is None or value not in one.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None


def opted_out(pod: Metadata) -> bool:
    """Tell whether the pod says that it stays as it is."""
    return (pod.labels or {}).get(TRANSLATE_LABEL) == Mode.OFF


def mislabelled(pod: Metadata, mode: Mode) -> tuple[Finding, ...]:
    """Tell of a pod's label that does not do what somebody hopes for."""
    said = (pod.labels or {}).get(TRANSLATE_LABEL)
    if said in (None, Mode.OFF, mode):
        return ()
    message = f"it is {said or 'empty'}, and only off has a meaning on a pod"
    return (POD_LABEL_UNKNOWN.at(f"metadata.labels[{TRANSLATE_LABEL}]", message),)


def owner(namespace: str, pod: Metadata) -> str:
    """Name the root owner of a pod, as far as the pod shows it."""
    owners = pod.owner_references or ()
    first = next((each for each in owners if each.controller), owners[0] if owners else None)
    if first is None:
        return f"{namespace}/Pod/{pod.name or pod.generate_name}"
    kind, name = _root(first, pod.labels or {})
    return f"{namespace}/{kind}/{name}"


def _root(owner: Owner, labels: Mapping[str, str]) -> tuple[str, str]:
    """Say who made the owner, where that shows."""
    for label, kind in _LABELS.items():
        if name := labels.get(label):
            return kind, name
    if owner.kind == "ReplicaSet":
        for label, kind in _HASHES.items():
            digest = labels.get(label)
            if digest and owner.name.endswith(f"-{digest}"):
                return kind, owner.name.removesuffix(f"-{digest}")
    elif owner.kind == "Job" and (timed := _TIMED.fullmatch(owner.name)):
        return "CronJob", timed[1]
    return owner.kind, owner.name


def rolled_out(owner: str, percent: int) -> bool:
    """Tell whether an owner is among the first `percent`; who is in stays in as it grows."""
    share = int.from_bytes(hashlib.sha256(owner.encode("utf-8", "replace")).digest()[:4], "big")
    return share * 100 < percent * _SHARES
