"""Argo's workflows: a template with containers is a pod, and its claims are a patch in a text.

Such a template has room for containers, selectors and annotations, and none for `resourceClaims`;
Argo merges the text `podSpecPatch` into the pod that it makes of one. What a workflow says for all
its templates is read with each of them, and where that would have to change, or a patch says
something already, nothing can be translated here. Knows nothing of what requests mean.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from documents.patch import Edit, apply_edits
from documents.paths import Path, get_value
from documents.values import Value
from translate.manifests.workloads import Place, group_kind, map_path

SPECS: Final[Mapping[tuple[str, str], Path]] = {
    ("argoproj.io", "Workflow"): ("spec",),
    ("argoproj.io", "WorkflowTemplate"): ("spec",),
    ("argoproj.io", "ClusterWorkflowTemplate"): ("spec",),
    ("argoproj.io", "CronWorkflow"): ("spec", "workflowSpec"),
}
_PATCH: Final = "podSpecPatch"
_CLAIMS: Final[Path] = ("spec", "resourceClaims")
# The container of these is called so in the pod.
_MAIN: Final = "main"
_ONE: Final = ("container", "script")
_SEVERAL: Final[tuple[Path, ...]] = (("containerSet", "containers"), ("sidecars",))
_OWN: Final = ("nodeSelector", "affinity", "tolerations", "schedulerName", "initContainers")
_FOR_ALL: Final = ("nodeSelector", "affinity", "tolerations", "schedulerName", "hostNetwork")


def find_places(value: Value) -> tuple[Place, ...]:
    """Return the templates of a workflow that are pods, as far as they can be translated."""
    if not isinstance(value, dict) or group_kind(value) not in SPECS:
        return ()
    path = SPECS[group_kind(value)]
    spec = get_value(value, path)
    # What these two say goes into every pod, after or beside what a template says.
    if not isinstance(spec, dict) or spec.get(_PATCH) or spec.get("podMetadata"):
        return ()
    listed = spec.get("templates")
    found: list[Place] = []
    for number, one in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(one, dict) and not one.get(_PATCH):
            found += _template(one, (*path, "templates", number), spec)
    return tuple(found)


def _template(one: Mapping[str, Value], path: Path, spec: Mapping[str, Value]) -> Iterator[Place]:
    listed = list(_containers(one))
    if not listed:
        return
    at: dict[Path, Path] = {("metadata",): (*path, "metadata"), ("spec",): path}
    at |= {("spec", "containers", n): (*path, *where) for n, (where, _) in enumerate(listed)}
    inner: dict[str, Value] = {key: spec[key] for key in _FOR_ALL if spec.get(key)}
    inner |= {key: one[key] for key in _OWN if one.get(key)}
    inner["containers"] = [container for _, container in listed]
    pod: dict[str, Value] = {"spec": inner}
    if "metadata" in one:
        pod["metadata"] = one["metadata"]
    given = frozenset(key for key in _FOR_ALL if key in inner and not one.get(key))
    yield Place(pod, path, at, given=given)


def _containers(one: Mapping[str, Value]) -> Iterator[tuple[Path, Value]]:
    """Give the containers of a template, each with its place in it."""
    for key in _ONE:
        container = one.get(key)
        if isinstance(container, dict):
            yield (key,), {"name": _MAIN, **container}
    for path in _SEVERAL:
        several = get_value(dict(one), path)
        for number, each in enumerate(several if isinstance(several, list) else ()):
            yield (*path, number), each


def map_edits(place: Place, edits: Sequence[Edit]) -> tuple[Edit, ...] | None:
    """Say edits of a pod as edits of its object; None where its place has no room for them."""
    if place.given is None:
        return tuple(Edit(each.op, map_path(each.path, place), each.value) for each in edits)
    beyond = {("spec", key) for key in place.given}
    if not beyond.isdisjoint(each.path[:2] for each in edits):
        return None
    claims = get_value(apply_edits(place.pod, edits), _CLAIMS)
    rest = [each for each in edits if each.path[:2] != _CLAIMS]
    if claims:
        text = json.dumps({"resourceClaims": claims}, separators=(",", ":"))
        rest.append(Edit("add", ("spec", _PATCH), text))
    return tuple(Edit(each.op, map_path(each.path, place), each.value) for each in rest)
