"""Build ResourceClaimTemplate objects, and compare them with what the API server stored."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from drawbridge.agreement.admission_codes import (
    CLAIM_FIELD_DROPPED,
    TEMPLATE_CHANGED,
    TEMPLATE_REFUSED,
)
from drawbridge.documents.paths import Path, format_path
from drawbridge.documents.values import Value, as_mapping, equal_json
from drawbridge.facts.model import GATE_OF_FIELD
from drawbridge.finding import Finding
from drawbridge.names import MANAGED_BY, USED_ANNOTATION
from drawbridge.translate.changes.template import (
    ClaimTemplate,
    has_same_content,
    normalize_claim,
)


def build_refused_finding(name: str, reason: str) -> Finding:
    """Return the finding for a template that the API server rejects."""
    return TEMPLATE_REFUSED.at("spec.resourceClaims", f"ResourceClaimTemplate {name}: {reason}")


def find_changed_field(stored: Mapping[str, Value], template: ClaimTemplate) -> Finding | None:
    """Return a finding that names a template field that is not stored as it was sent.

    The API server drops whole fields behind a feature gate, and changes nothing else.
    """
    if has_same_content(stored, template):
        return None
    sent, kept = (
        normalize_claim(as_mapping(each.get("spec"))) for each in (template.object, stored)
    )
    different = [*_list_differences(sent, kept, ("spec",))] or [(("metadata",), False)]
    changed = [path for path, is_missing in different if not (is_missing and _has_gate(path))]
    field = format_path(changed[0] if changed else different[0][0])
    name = f"ResourceClaimTemplate {template.name}"
    if changed:
        return TEMPLATE_CHANGED.at(field, f"{name}: another webhook or a policy changes {field}")
    return CLAIM_FIELD_DROPPED.at(field, f"{name}: this API server drops the field {field}")


def _has_gate(path: Path) -> bool:
    """Whether the field at a path of a template is behind a feature gate."""
    if path[:3] != ("spec", "spec", "devices"):
        return False
    match path[3:]:
        case ("requests", _, "exactly", field) | ("requests", _, "firstAvailable", _, field):
            return f"exactly.{field}" in GATE_OF_FIELD
        case ("requests", _, field):
            return field in GATE_OF_FIELD
        case ("constraints", _, field):
            return f"constraints.{field}" in GATE_OF_FIELD
    return False


def _list_differences(sent: Value, stored: Value, path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the paths of what differs, and whether it is missing from what is stored."""
    ours, theirs = _list_children(sent), _list_children(stored)
    if ours is None or theirs is None:
        if not equal_json(sent, stored):
            yield path, False
        return
    for key in {**ours, **theirs}:
        if key in ours and key in theirs:
            yield from _list_differences(ours[key], theirs[key], (*path, key))
        else:
            yield (*path, key), key in ours


def _list_children(value: Value) -> Mapping[str | int, Value] | None:
    """Return the fields of an object, or the items of a list by index."""
    if isinstance(value, dict):
        return dict(value.items())
    return dict(enumerate(value)) if isinstance(value, list) else None


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
