"""Which chart, operator or GitOps tool owns an object, so that a patch of it may not last."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from drawbridge.audit.objects import owners_of
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.names import TRANSLATE_LABEL

_MAX: Final = 253
# Field managers, and what a person calls them.
_MANAGERS: Final = {
    "argocd-controller": "Argo CD",
    "argocd-application-controller": "Argo CD",
    "kustomize-controller": "Flux",
    "helm-controller": "Flux",
    "helm": "a Helm release",
    "fleetagent": "Fleet",
}


class Manager(NamedTuple):
    """Who manages an object, in words, and the Helm release if it is one."""

    text: str = ""
    release: str = ""


def find_manager(value: Value) -> Manager:
    """Return who manages an object, by its labels, annotations, owners and field managers."""
    metadata = as_mapping(get_value(value, ("metadata",)))
    labels, notes = (_texts(metadata.get(key)) for key in ("labels", "annotations"))
    tracked = notes.get("argocd.argoproj.io/tracking-id", "").partition(":")[0]
    if name := tracked or labels.get("argocd.argoproj.io/instance", ""):
        return Manager(f"Argo CD's application {name}")
    for kind, key in (("Kustomization", "kustomize"), ("HelmRelease", "helm")):
        if name := labels.get(f"{key}.toolkit.fluxcd.io/name", ""):
            return Manager(f"Flux' {kind} {name}")
    if name := notes.get("meta.helm.sh/release-name", ""):
        return Manager(f"the Helm release {name}", name)
    for owner in owners_of(value):
        if owner.get("kind") == "CronJob":  # changes no Job that it has created
            break
        return Manager(f"{owner.get('kind')}/{owner.get('name')}"[:_MAX])
    for entry in map(as_mapping, as_list(metadata.get("managedFields"))):
        if title := _MANAGERS.get(f"{entry.get('manager')}"):
            return Manager(title)
    return Manager()


def _texts(value: Value | None) -> Mapping[str, str]:
    return {key: text[:_MAX] for key, text in as_mapping(value).items() if isinstance(text, str)}


def note_namespaces(names: Iterable[str], managers: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each namespace of a chart or a GitOps tool whose label a step sets."""
    for name in names:
        if manager := managers.get(name):
            yield (
                f"Namespace {name} belongs to {manager}, which can take a label back: set"
                f" {TRANSLATE_LABEL} there, too."
            )


def note_jobs(managers: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each Job of a chart or a GitOps tool that a step suspends."""
    for job, manager in managers.items():
        if manager:
            yield (
                f"{job} belongs to {manager}, which can let it go on too early: stop its"
                " synchronization, or set spec.suspend there, during the step."
            )
