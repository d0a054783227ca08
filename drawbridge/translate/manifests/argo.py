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
from drawbridge.documents.values import Value
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
    if not isinstance(value, dict) or group_kind(value) not in SPECS:
        return ()
    path = SPECS[group_kind(value)]
    spec = get_value(value, path)
    # Argo merges these two into every pod, with or after the fields of its template.
    if not isinstance(spec, dict) or spec.get(PATCH) or spec.get("podMetadata"):
        return ()
    listed = spec.get("templates")
    places: list[Place] = []
    for number, template in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(template, dict) and not template.get(PATCH):
            places += _template(template, (*path, "templates", number), spec)
    return tuple(places)


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
        containers = get_value(dict(template), path)
        for number, container in enumerate(containers if isinstance(containers, list) else ()):
            yield (*path, number), container


def map_edits(place: Place, edits: Sequence[Edit]) -> tuple[Edit, ...] | None:
    """Map edits of a pod to edits of its object; None if the object has no field for one."""
    if place.inherited is None:
        return tuple(Edit(each.op, map_path(each.path, place), each.value) for each in edits)
    shared = {("spec", key) for key in place.inherited}
    if not shared.isdisjoint(each.path[:2] for each in edits):
        return None
    claims = get_value(apply_edits(place.pod, edits), _CLAIMS)
    others = [each for each in edits if each.path[:2] != _CLAIMS]
    if claims:
        text = json.dumps({"resourceClaims": claims}, separators=(",", ":"))
        others.append(Edit("add", ("spec", PATCH), text))
    return tuple(Edit(each.op, map_path(each.path, place), each.value) for each in others)


def find_translated_places(value: Value) -> tuple[Place, ...]:
    """Return the templates of a workflow whose patch has only claims, as pods with these claims."""
    if not isinstance(value, dict) or group_kind(value) not in SPECS:
        return ()
    path = SPECS[group_kind(value)]
    spec = get_value(value, path)
    listed = spec.get("templates") if isinstance(spec, dict) else None
    places: list[Place] = []
    for number, template in enumerate(listed if isinstance(listed, list) else ()):
        claims = _patched_claims(template)
        if claims and isinstance(spec, dict) and isinstance(template, dict):
            for place in _template(template, (*path, "templates", number), spec):
                inner = get_value(place.pod, ("spec",))
                pod: dict[str, Value] = {"spec": {**inner, "resourceClaims": claims}}  # type: ignore[dict-item]  # an object
                if "metadata" in template:
                    pod["metadata"] = template["metadata"]
                places.append(replace(place, pod=pod))
    return tuple(places)


def _patched_claims(template: Value) -> list[Value]:
    """Return the claims in the patch of a template; none if it patches anything else."""
    text = template.get(PATCH) if isinstance(template, dict) else None
    try:
        patch = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return []
    if not isinstance(patch, dict) or patch.keys() != {"resourceClaims"}:
        return []
    claims = patch["resourceClaims"]
    return claims if isinstance(claims, list) else []


def map_undo(place: Place, edits: Sequence[Edit]) -> tuple[Edit, ...] | None:
    """Map the edits that undo a translation; None if the patch would keep other claims."""
    if place.inherited is None or not edits:
        return tuple(Edit(each.op, map_path(each.path, place), each.value) for each in edits)
    if get_value(apply_edits(place.pod, edits), _CLAIMS):
        return None
    others = [each for each in edits if each.path[:2] != _CLAIMS]
    others.append(Edit("remove", ("spec", PATCH)))
    return tuple(Edit(each.op, map_path(each.path, place), each.value) for each in others)
