"""Makes a ResourceClaimTemplate from a claim spec, named by the hash of its content.

The hash covers the template as `resource.k8s.io/v1` stores it, so that equal requests use the same
template name in every namespace and from every replica.
"""

import hashlib
from collections.abc import Mapping

import msgspec

from drawbridge.documents.values import Value, equal_json
from drawbridge.dra.claim import ALL, EXACT_COUNT, TEMPLATE
from drawbridge.dra.quantity import valid_quantity
from drawbridge.names import TEMPLATE_PREFIX
from drawbridge.translate.targets.vocabulary import Expression

API_VERSION = "resource.k8s.io/v1"
# 128 bits prevent collisions, and the name with its prefix is a valid label value.
_DIGITS = 32
# Of the hash in a readable name (drawbridge.translate.manifests.readable_names).
READABLE_DIGITS = 8

_NOTHING: Mapping[str, str] = {}


class ClaimTemplate(msgspec.Struct, frozen=True):
    """A template and its name; the writer adds the namespace.

    `expressions` tells what the selectors mean, by their text.
    """

    name: str
    object: dict[str, Value]
    expressions: Mapping[str, Expression] = {}


def make_template(
    spec: Mapping[str, Value],
    *,
    labels: Mapping[str, str] = _NOTHING,
    annotations: Mapping[str, str] = _NOTHING,
    claim_labels: Mapping[str, str] = _NOTHING,
    claim_annotations: Mapping[str, str] = _NOTHING,
) -> ClaimTemplate:
    """Make the template of a claim spec, with its own metadata and metadata for its claims."""
    metadata = _metadata(labels, annotations)
    inner: dict[str, Value] = {}
    if claim_metadata := _metadata(claim_labels, claim_annotations):
        inner["metadata"] = claim_metadata
    inner["spec"] = normalize_spec(spec)
    name = TEMPLATE_PREFIX + _content_digest({"metadata": metadata, "spec": inner})
    template: dict[str, Value] = {
        "apiVersion": API_VERSION,
        "kind": TEMPLATE,
        "metadata": {"name": name, **metadata},
        "spec": inner,
    }
    return ClaimTemplate(name, template)


def _content_digest(content: Value) -> str:
    """Return the hash of the canonical JSON of a content, as template names contain it."""
    canonical = msgspec.json.encode(content, order="sorted")
    return hashlib.sha256(canonical).hexdigest()[:_DIGITS]


def has_same_content(stored_object: Mapping[str, Value], ours: ClaimTemplate) -> bool:
    """Whether a stored template makes the same claims as ours.

    Ignores fields that the API server fills in, and labels and annotations that others add to the
    template itself, because claims do not get them. Everything that reaches a claim must be equal.
    """
    if not _contains(_object(ours.object, "metadata"), _object(stored_object, "metadata")):
        return False
    theirs, wanted = _object(stored_object, "spec"), _object(ours.object, "spec")
    if _metadata_maps(_object(theirs, "metadata")) != _metadata_maps(_object(wanted, "metadata")):
        return False
    return equal_json(normalize_spec(_object(theirs, "spec")), _object(wanted, "spec"))


def has_generated_name(stored: Mapping[str, Value]) -> bool:
    """Whether the name of a stored template is the hash of its content, as we name templates."""
    metadata = _object(stored, "metadata")
    return metadata.get("name") == generate_name(metadata, _object(stored, "spec"))


def generate_name(metadata: Mapping[str, Value], spec: Mapping[str, Value]) -> str:
    """Return the name of a template with these labels, annotations and stored spec."""
    content: Value = {"metadata": _metadata_maps(metadata), "spec": normalize_claim(spec)}
    return TEMPLATE_PREFIX + _content_digest(content)


def normalize_claim(spec: Mapping[str, Value]) -> dict[str, Value]:
    """Return what reaches a claim of a template with this stored spec."""
    claim: dict[str, Value] = {"spec": normalize_spec(_object(spec, "spec"))}
    if metadata := _metadata_maps(_object(spec, "metadata")):
        claim["metadata"] = metadata
    return claim


def _object(value: Mapping[str, Value], name: str) -> dict[str, Value]:
    held = value.get(name)
    return held if isinstance(held, dict) else {}


def _metadata_maps(metadata: Mapping[str, Value]) -> dict[str, Value]:
    """Return the labels and annotations of metadata; drops empty maps."""
    return {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}


def _contains(ours: Mapping[str, Value], theirs: Mapping[str, Value]) -> bool:
    held = {name: _object(theirs, name) for name in ("labels", "annotations")}
    return all(
        held[name].get(key) == text for name in held for key, text in _object(ours, name).items()
    )


def normalize_spec(spec: Mapping[str, Value]) -> dict[str, Value]:
    """Return a claim spec as the API server stores it: with defaults, without empty fields."""
    stored = _without_empty(dict(spec))
    devices = stored.get("devices")
    if not isinstance(devices, dict):
        return stored
    requests = devices.get("requests")
    if isinstance(requests, list):
        devices["requests"] = [_fill_request(each) for each in requests]
    return stored


def _metadata(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, Value]:
    both = {"labels": dict(labels), "annotations": dict(annotations)}
    return {name: {**texts} for name, texts in both.items() if texts}


def _without_empty(value: dict[str, Value]) -> dict[str, Value]:
    """Drop empty fields; driver parameters stay as they are."""
    kept: dict[str, Value] = {}
    for name, item in value.items():
        if name == "parameters":
            kept[name] = item
        elif isinstance(item, dict):
            kept[name] = _without_empty(item)
        elif isinstance(item, list):
            if item:
                kept[name] = [
                    _without_empty(element) if isinstance(element, dict) else element
                    for element in item
                ]
        elif item is not None and item != "":
            kept[name] = item
    return kept


def _fill_request(request: Value) -> Value:
    if not isinstance(request, dict):
        return request
    filled = dict(request)
    if isinstance(exactly := filled.get("exactly"), dict):
        filled["exactly"] = _fill_subrequest(exactly)
    if isinstance(alternatives := filled.get("firstAvailable"), list):
        filled["firstAvailable"] = [
            _fill_subrequest(alternative) if isinstance(alternative, dict) else alternative
            for alternative in alternatives
        ]
    return filled


def _fill_subrequest(subrequest: dict[str, Value]) -> dict[str, Value]:
    mode = subrequest.get("allocationMode") or EXACT_COUNT
    filled = {**subrequest, "allocationMode": mode}
    if mode != ALL and not filled.get("count"):
        filled["count"] = 1
    tolerations = filled.get("tolerations")
    if isinstance(tolerations, list):
        filled["tolerations"] = [
            {"operator": "Equal", **toleration} if isinstance(toleration, dict) else toleration
            for toleration in tolerations
        ]
    capacity = filled.get("capacity")
    amounts = capacity.get("requests") if isinstance(capacity, dict) else None
    if isinstance(capacity, dict) and isinstance(amounts, dict):
        canonical = {name: _canonical(each) for name, each in amounts.items()}
        filled["capacity"] = {**capacity, "requests": canonical}
    return filled


def _canonical(amount: Value) -> Value:
    """Write a quantity in the API server's canonical form; others stay for it to refuse."""
    quantity = valid_quantity(amount)
    return amount if quantity is None else quantity.canonical()
