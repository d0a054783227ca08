"""ResourceClaimTemplates as the API server stores them: what we send, and what it dropped."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from documents.paths import get
from documents.values import Value
from dra.finding import Finding
from dra.names import USED_ANNOTATION
from registration.admission_codes import FIELD_DROPPED, TEMPLATE_REFUSED
from translate.changes.template import Template, says_the_same
from translate.legacy.pod_view import items, mapping

# Watches select templates by this label; no decision trusts it.
_OURS: Final[Mapping[str, Value]] = {"app.kubernetes.io/managed-by": "drawbridge"}
_ALWAYS_KEPT: Final = frozenset({"deviceClassName", "selectors", "allocationMode", "count"})


def refusal(name: str, why: str) -> Finding:
    """Say why a template cannot be made now."""
    return TEMPLATE_REFUSED.at("spec.resourceClaims", f"ResourceClaimTemplate {name}: {why}")


def lost(stored: Mapping[str, Value], template: Template) -> Finding | None:
    """Tell which field of a template the API server dropped."""
    if says_the_same(stored, template):
        return None
    ours, theirs = (get(dict(each), ("spec",)) for each in (template.object, stored))
    field = _dropped(ours, theirs, "spec") or "spec"
    return FIELD_DROPPED.at(
        field,
        f"ResourceClaimTemplate {template.name}: this API server does not keep {field}",
    )


def _dropped(ours: Value, theirs: Value, path: str) -> str:
    """Find the first place that says less than it should."""
    if isinstance(ours, dict):
        held = mapping(theirs)
        for key, value in ours.items():
            if key not in held:
                return f"{path}.{key}"
            if found := _dropped(value, held[key], f"{path}.{key}"):
                return found
        return ""
    if isinstance(ours, list):
        listed = items(theirs)
        for number, value in enumerate(ours):
            if number >= len(listed):
                return f"{path}[{number}]"
            if found := _dropped(value, listed[number], f"{path}[{number}]"):
                return found
    return ""


def demanding(template: Template) -> bool:
    """Whether it says anything that an older API server might drop."""
    devices = mapping(get(template.object, ("spec", "spec", "devices")))
    for request in items(devices.get("requests")):
        if not _ALWAYS_KEPT.issuperset(mapping(mapping(request).get("exactly"))):
            return True
        if "firstAvailable" in mapping(request):
            return True
    return any("distinctAttribute" in mapping(each) for each in items(devices.get("constraints")))


def placed(template: Template, namespace: str, now: datetime) -> dict[str, Value]:
    """Put a template into a namespace, marked as ours and as used: no part of what it says."""
    metadata = mapping(template.object.get("metadata"))
    placed: Value = {
        **metadata,
        "namespace": namespace,
        "labels": {**mapping(metadata.get("labels")), **_OURS},
        "annotations": {**mapping(metadata.get("annotations")), USED_ANNOTATION: written(now)},
    }
    return {**template.object, "metadata": placed}


def written(moment: datetime) -> str:
    """Format a time for the annotation of last use."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
