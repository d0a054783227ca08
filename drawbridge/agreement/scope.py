"""Decide which pods Drawbridge translates: namespace label, selector, opt-out label, and rollout.

The decision depends only on the pod and its namespace, so all replicas agree. A pod can opt out,
but not opt in. Who knows the live webhook configuration passes it: the API server sends no pod that
its selectors leave out.
"""

import enum
import hashlib
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from drawbridge.agreement.admission_codes import POD_LABEL_UNKNOWN, SCOPE_LABEL_UNKNOWN
from drawbridge.agreement.webhook_selectors import PodWebhook
from drawbridge.config.label_selectors import selector_matches
from drawbridge.config.model import Scope
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.finding import Finding
from drawbridge.names import TRANSLATE_LABEL
from drawbridge.translate.opt_out import opts_out

# Controllers that name a ReplicaSet after themselves and a hash also put the hash on the pod.
_HASH_LABELS: Final = {
    "pod-template-hash": "Deployment",
    "rollouts-pod-template-hash": "Rollout",
}
# Other controllers put their own name in a label on the pod.
_OWNER_LABELS: Final = {
    "jobset.sigs.k8s.io/jobset-name": "JobSet",
    "leaderworkerset.sigs.k8s.io/name": "LeaderWorkerSet",
}
# The launcher of an MPIJob is a pod of a Job, and the workers are pods of the MPIJob.
_LAUNCHER_LABELS: Final = {"training.kubeflow.org/job-name": "MPIJob"}
# Objects that are the root owner of their pods. Other kinds may create objects with other names.
_ROOT_KINDS: Final = frozenset(
    (
        *("CronJob", "DaemonSet", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"),
        *(kind for by in (_HASH_LABELS, _OWNER_LABELS, _LAUNCHER_LABELS) for kind in by.values()),
    )
)
_CRON_JOB_NAME: Final = re.compile(r"(.+)-\d{8,}")
_HASH_RANGE: Final = 2**32
_NAME_LABEL: Final = "kubernetes.io/metadata.name"


class Mode(enum.StrEnum):
    """The translation mode of a namespace."""

    ENFORCE = "enforce"
    REPORT = "report"
    OFF = "off"


class ScopeRule(enum.StrEnum):
    """What decided the mode of a pod or namespace."""

    EXCLUDED = "excludeNamespaces"
    NAMESPACE_LABEL = "namespaceLabel"
    SELECTOR = "namespaceSelector"
    NOT_OPTED_IN = "notOptedIn"  # neither label nor selector
    POD_LABEL = "podLabel"
    ROLLOUT = "rollout"
    NOT_CALLED = "webhookConfiguration"  # the API server does not call the webhook for the pod
    SWITCHED_OFF = "switchedOff"  # nor for any pod, until the switch is on again


class NamespaceScope(NamedTuple):
    """The mode of a namespace, what decided it, and findings about its label."""

    mode: Mode
    rule: ScopeRule
    findings: tuple[Finding, ...] = ()


class PodScope(NamedTuple):
    """The mode of a pod, and what decided it."""

    mode: Mode
    rule: ScopeRule


class PodOwner(msgspec.Struct, frozen=True):
    """An entry of `metadata.ownerReferences` of a pod."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None


class PodMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a pod's metadata that decide its scope."""

    name: str = ""
    generate_name: str = ""
    labels: Mapping[str, str] | None = None
    owner_references: tuple[PodOwner, ...] | None = None


def decide_namespace_scope(
    name: str,
    labels: Mapping[str, str],
    scope: Scope,
    webhook: PodWebhook | None = None,
) -> NamespaceScope:
    """Decide the mode of a namespace from its labels and the configuration.

    `webhook` is the live one for pods: None if it is unknown, without selectors if it is missing.
    """
    decided = _decide_by_rules(name, labels, scope)
    if decided.mode is Mode.OFF or webhook is None:
        return decided
    if not webhook.selects_namespace(with_name(name, labels)):
        return NamespaceScope(Mode.OFF, ScopeRule.NOT_CALLED, decided.findings)
    return decided


def _decide_by_rules(name: str, labels: Mapping[str, str], scope: Scope) -> NamespaceScope:
    if name in scope.exclude_namespaces:
        return NamespaceScope(Mode.OFF, ScopeRule.EXCLUDED)
    value = labels.get(TRANSLATE_LABEL)
    if value is None:
        selector = scope.namespace_selector
        if selector is not None and selector_matches(selector, labels):
            return NamespaceScope(Mode.ENFORCE, ScopeRule.SELECTOR)
        return NamespaceScope(Mode.OFF, ScopeRule.NOT_OPTED_IN)
    if value in set(Mode):
        return NamespaceScope(Mode(value), ScopeRule.NAMESPACE_LABEL)
    finding = SCOPE_LABEL_UNKNOWN.at(
        f"metadata.labels[{TRANSLATE_LABEL}]",
        f"namespace {name} has the label value {value or 'empty'}, which is not valid; "
        "its pods are not translated",
        object=f"Namespace/{name}",
    )
    return NamespaceScope(Mode.OFF, ScopeRule.NAMESPACE_LABEL, (finding,))


def decide_pod_scope(
    namespace: str,
    labels: Mapping[str, str],
    pod: PodMetadata,
    scope: Scope,
    webhook: PodWebhook | None = None,
) -> PodScope:
    """Decide the mode of a pod: that of its namespace, or OFF if a rule leaves the pod out.

    `labels` are those of the namespace, and `webhook` is as in `decide_namespace_scope`.
    """
    mode, rule, _ = _decide_by_rules(namespace, labels, scope)
    if mode is Mode.OFF:
        return PodScope(mode, rule)
    against = _find_rule_against(namespace, pod, scope)
    if against is not None:
        return PodScope(Mode.OFF, against)
    if webhook is None or webhook.selects(with_name(namespace, labels), pod.labels or {}):
        return PodScope(mode, rule)
    return PodScope(Mode.OFF, ScopeRule.NOT_CALLED)


def with_name(namespace: str, labels: Mapping[str, str]) -> Mapping[str, str]:
    """Add the label that the API server sets; a file may lack it."""
    return {_NAME_LABEL: namespace, **labels}


def is_included(namespace: str, pod: PodMetadata, scope: Scope) -> bool:
    """Return whether a pod of a namespace in scope did not opt out and is rolled out."""
    return _find_rule_against(namespace, pod, scope) is None


def _find_rule_against(namespace: str, pod: PodMetadata, scope: Scope) -> ScopeRule | None:
    """Return the rule that leaves a pod out of a namespace in scope."""
    if is_opted_out(pod):
        return ScopeRule.POD_LABEL
    owner = find_root_owner(namespace, pod)
    return None if is_rolled_out(owner, scope.rollout.percent) else ScopeRule.ROLLOUT


def read_metadata(pod: Value) -> PodMetadata:
    """Return the metadata that decides the scope; of malformed metadata, the default."""
    try:
        return msgspec.convert(get_value(pod, ("metadata",)), PodMetadata)
    except msgspec.ValidationError:
        return PodMetadata()


def is_opted_out(pod: PodMetadata) -> bool:
    """Return whether the pod opts out by its label."""
    return opts_out(pod.labels or {})


def find_label_without_effect(pod: PodMetadata, mode: Mode) -> tuple[Finding, ...]:
    """Return a finding if the translate label of the pod has a value without effect."""
    value = (pod.labels or {}).get(TRANSLATE_LABEL)
    if value in (None, Mode.OFF, mode):
        return ()
    message = f"the label value is {value or 'empty'}, but on a pod only off has an effect"
    return (POD_LABEL_UNKNOWN.at(f"metadata.labels[{TRANSLATE_LABEL}]", message),)


def is_shown_by_pods(owner: PodOwner) -> bool:
    """Return whether the pods of an object show it as their root owner, or the object above it."""
    return owner.kind in _ROOT_KINDS and bool(owner.name)


def find_root_owner(namespace: str, pod: PodMetadata) -> str:
    """Return `namespace/kind/name` of the root owner, as far as the pod shows it."""
    owners = pod.owner_references or ()
    first = next((each for each in owners if each.controller), owners[0] if owners else None)
    # The node is the owner of the mirror of a static pod, and did not create it.
    if first is None or first.kind == "Node":
        # Mutating webhooks run before the API server generates the name.
        return f"{namespace}/Pod/{pod.generate_name or pod.name}"
    kind, name = _resolve_root(first, pod.labels or {})
    return f"{namespace}/{kind}/{name}"


def _resolve_root(owner: PodOwner, labels: Mapping[str, str]) -> tuple[str, str]:
    """Return kind and name of the object that created the owner, if labels or name show it."""
    if labelled := _find_labelled(labels, _OWNER_LABELS):
        return labelled
    if owner.kind == "ReplicaSet":
        for label, kind in _HASH_LABELS.items():
            digest = labels.get(label)
            if digest and owner.name.endswith(f"-{digest}"):
                return kind, owner.name.removesuffix(f"-{digest}")
    elif owner.kind == "Job" and (launched := _find_labelled(labels, _LAUNCHER_LABELS)):
        return launched
    elif owner.kind == "Job" and (cron_job := _CRON_JOB_NAME.fullmatch(owner.name)):
        return "CronJob", cron_job[1]
    return owner.kind, owner.name


def _find_labelled(labels: Mapping[str, str], kinds: Mapping[str, str]) -> tuple[str, str] | None:
    """Return kind and name of an object that a label names."""
    if kinds.keys().isdisjoint(labels):  # as of most pods
        return None
    named = ((kind, labels.get(label)) for label, kind in kinds.items())
    return next(((kind, name) for kind, name in named if name), None)


def is_rolled_out(owner: str, percent: int) -> bool:
    """Return whether the rollout includes an owner.

    An owner that is included stays included when `percent` grows.
    """
    share = int.from_bytes(hashlib.sha256(owner.encode("utf-8", "replace")).digest()[:4], "big")
    return share * 100 < percent * _HASH_RANGE
