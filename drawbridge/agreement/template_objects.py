"""Build ResourceClaimTemplate objects, and compare them with what the API server stored."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from drawbridge.agreement.admission_codes import CLAIM_FIELD_DROPPED, TEMPLATE_REFUSED
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.finding import Finding
from drawbridge.names import MANAGED_BY, USED_ANNOTATION
from drawbridge.translate.changes.template import ClaimTemplate, has_same_content

_ALWAYS_KEPT: Final = frozenset({"deviceClassName", "selectors", "allocationMode", "count"})


def build_refused_finding(name: str, reason: str) -> Finding:
    """Return the finding for a template that the API server rejects."""
    return TEMPLATE_REFUSED.at("spec.resourceClaims", f"ResourceClaimTemplate {name}: {reason}")


def find_dropped_field(stored: Mapping[str, Value], template: ClaimTemplate) -> Finding | None:
    """Return a finding that names the first template field that the API server dropped."""
    if has_same_content(stored, template):
        return None
    sent, kept = (get_value(dict(each), ("spec",)) for each in (template.object, stored))
    field = _find_dropped_path(sent, kept, "spec") or "spec"
    return CLAIM_FIELD_DROPPED.at(
        field,
        f"ResourceClaimTemplate {template.name}: this API server drops the field {field}",
    )


def _find_dropped_path(sent: Value, stored: Value, path: str) -> str:
    """Return the path of the first value that was sent but not stored, or an empty string."""
    if isinstance(sent, dict):
        stored_fields = as_mapping(stored)
        for key, value in sent.items():
            if key not in stored_fields:
                return f"{path}.{key}"
            if dropped := _find_dropped_path(value, stored_fields[key], f"{path}.{key}"):
                return dropped
        return ""
    if isinstance(sent, list):
        stored_items = as_list(stored)
        for number, value in enumerate(sent):
            if number >= len(stored_items):
                return f"{path}[{number}]"
            if dropped := _find_dropped_path(value, stored_items[number], f"{path}[{number}]"):
                return dropped
    return ""


def may_be_dropped(template: ClaimTemplate) -> bool:
    """Return whether the template sets any field that an older API server might drop."""
    devices = as_mapping(get_value(template.object, ("spec", "spec", "devices")))
    for request in as_list(devices.get("requests")):
        if not _ALWAYS_KEPT.issuperset(as_mapping(as_mapping(request).get("exactly"))):
            return True
        if "firstAvailable" in as_mapping(request):
            return True
    constraints = as_list(devices.get("constraints"))
    return any("distinctAttribute" in as_mapping(each) for each in constraints)


def build_object(
    template: ClaimTemplate, namespace: str, used: datetime | None = None
) -> dict[str, Value]:
    """Return the object to create: in a namespace, labeled as managed, and marked with its use.

    Admission creates a template before its pod exists, and the pod may never exist. Such a template
    has no time of use until the controller sees a pod that refers to it.
    """
    metadata = as_mapping(template.object.get("metadata"))
    new_metadata: dict[str, Value] = {
        **metadata,
        "namespace": namespace,
        "labels": {**as_mapping(metadata.get("labels")), **MANAGED_BY},
    }
    if used is not None:
        annotations = as_mapping(metadata.get("annotations"))
        new_metadata["annotations"] = {**annotations, USED_ANNOTATION: format_time(used)}
    return {**template.object, "metadata": new_metadata}


def format_time(moment: datetime) -> str:
    """Format a time for the annotation that records the last use."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: Value) -> datetime | None:
    """Parse such a time; None for other text, since any client can write the annotation.

    A time without a zone is in UTC.
    """
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)
