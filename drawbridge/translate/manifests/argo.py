"""Translates the templates of Argo workflows, whose claims go into a patch text.

A template with containers becomes a pod. It has fields for containers, selectors and annotations
but none for `resourceClaims`; Argo merges the text `podSpecPatch` into the pod. Fields that a
workflow sets for all its templates are read with each template. If such a field would have to
change, or if a patch exists already, the template is not translated.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from drawbridge.documents.patch import Edit, apply_edits
from drawbridge.documents.paths import Path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.translate.manifests.workloads import Place, group_kind, map_path

SPECS: Final[Mapping[tuple[str, str], Path]] = {
    ("argoproj.io", "Workflow"): ("spec",),
    ("argoproj.io", "WorkflowTemplate"): ("spec",),
    ("argoproj.io", "ClusterWorkflowTemplate"): ("spec",),
    ("argoproj.io", "CronWorkflow"): ("spec", "workflowSpec"),
}
PATCH: Final = "podSpecPatch"
_CLAIMS: Final[Path] = ("spec", "resourceClaims")
# The name that the container of these templates gets in the pod.
_MAIN: Final = "main"
_ONE: Final = ("container", "script")
_SEVERAL: Final[tuple[Path, ...]] = (("containerSet", "containers"), ("sidecars",))
_OWN: Final = ("nodeSelector", "affinity", "tolerations", "schedulerName", "initContainers")
_FOR_ALL: Final = ("nodeSelector", "affinity", "tolerations", "schedulerName", "hostNetwork")


def find_places(value: Value) -> tuple[Place, ...]:
    """Return the templates of a workflow that become pods and can be translated."""
    return tuple(
        place
        for path, template, spec in _list_templates(value)
        # Argo merges these two into every pod, with or after the fields of its template.
        if not (spec.get(PATCH) or spec.get("podMetadata") or template.get(PATCH))
        for place in _template(template, path, spec)
    )


def _list_templates(
    value: Value,
) -> Iterator[tuple[Path, Mapping[str, Value], Mapping[str, Value]]]:
    """Yield the templates of a workflow, each with its path, and the spec of all of them."""
    path = SPECS.get(group_kind(as_mapping(value)), ())
    spec = as_mapping(get_value(value, path)) if path else {}
    for number, template in enumerate(as_list(spec.get("templates"))):
        if isinstance(template, dict):
            yield (*path, "templates", number), template, spec


def _template(
    template: Mapping[str, Value], path: Path, spec: Mapping[str, Value]
) -> Iterator[Place]:
    listed = list(_containers(template))
    if not listed:
        return
    at: dict[Path, Path] = {("metadata",): (*path, "metadata"), ("spec",): path}
    at |= {("spec", "containers", n): (*path, *where) for n, (where, _) in enumerate(listed)}
    inner: dict[str, Value] = {key: spec[key] for key in _FOR_ALL if spec.get(key)}
    inner |= {key: template[key] for key in _OWN if template.get(key)}
    inner["containers"] = [container for _, container in listed]
    pod: dict[str, Value] = {"spec": inner}
    if "metadata" in template:
        pod["metadata"] = template["metadata"]
    inherited = frozenset(key for key in _FOR_ALL if key in inner and not template.get(key))
    yield Place(pod, path, at, inherited=inherited)


def _containers(template: Mapping[str, Value]) -> Iterator[tuple[Path, Value]]:
    """Yield the containers of a template, each with its path in the template."""
    for key in _ONE:
        container = template.get(key)
        if isinstance(container, dict):
            yield (key,), {"name": _MAIN, **container}
    for path in _SEVERAL:
        for number, container in enumerate(as_list(get_value(dict(template), path))):
            yield (*path, number), container


def map_edits(place: Place, edits: Sequence[Edit]) -> tuple[Edit, ...] | None:
    """Map edits of a pod to edits of its object; None if the object has no field for one."""
    if place.inherited is None:
        return _map(place, edits)
    shared = {("spec", key) for key in place.inherited}
    if not shared.isdisjoint(each.path[:2] for each in edits):
        return None
    claims = get_value(apply_edits(place.pod, edits), _CLAIMS)
    if not claims:
        return _map(place, edits, ())
    text = json.dumps({"resourceClaims": claims}, separators=(",", ":"))
    return _map(place, edits, (Edit("add", ("spec", PATCH), text),))


def _map(
    place: Place, edits: Sequence[Edit], patch: tuple[Edit, ...] | None = None
) -> tuple[Edit, ...]:
    """Map edits of a pod to its object; with `patch`, which stands for those of claims."""
    others = [each for each in edits if patch is None or each.path[:2] != _CLAIMS]
    mapped = (*others, *(patch or ()))
    return tuple(Edit(each.op, map_path(each.path, place), each.value) for each in mapped)


def find_translated_places(value: Value) -> tuple[Place, ...]:
    """Return the templates of a workflow whose patch has only claims, as pods with these claims."""
    return tuple(
        replace(place, pod=apply_edits(place.pod, [Edit("add", _CLAIMS, claims)]))
        for path, template, spec in _list_templates(value)
        if (claims := _patched_claims(template))
        for place in _template(template, path, spec)
    )


def _patched_claims(template: Mapping[str, Value]) -> list[Value]:
    """Return the claims in the patch of a template; none if it patches anything else."""
    text = template.get(PATCH)
    try:
        patch = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return []
    if not isinstance(patch, dict) or patch.keys() != {"resourceClaims"}:
        return []
    return as_list(patch["resourceClaims"])


def map_undo(place: Place, edits: Sequence[Edit]) -> tuple[Edit, ...] | None:
    """Map the edits that undo a translation; None if the patch would keep other claims."""
    if place.inherited is None or not edits:
        return _map(place, edits)
    if get_value(apply_edits(place.pod, edits), _CLAIMS):
        return None
    return _map(place, edits, (Edit("remove", ("spec", PATCH)),))
