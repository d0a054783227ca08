"""A claim spec to a ResourceClaimTemplate that is named by what it says.

The name is a hash over the template as `resource.k8s.io/v1` would store it, so that the same asking
is the same template in every namespace and by every replica. Knows nothing of who asked.
"""

import hashlib
from collections.abc import Mapping

import msgspec

from documents.values import Value, equal_json
from dra.claim import ALL, EXACT_COUNT, TEMPLATE
from dra.names import TEMPLATE_PREFIX
from dra.quantity import QuantityError, from_json

API_VERSION = "resource.k8s.io/v1"
# When a template was used last: no part of what it says.
# 128 bits: nobody finds a second content for a name, and with the prefix it is a label.
_DIGITS = 32

_NOTHING: Mapping[str, str] = {}


class ClaimTemplate(msgspec.Struct, frozen=True):
    """A template and its name; the namespace is filled in by who writes it."""

    name: str
    object: dict[str, Value]


def make_template(
    spec: Mapping[str, Value],
    *,
    labels: Mapping[str, str] = _NOTHING,
    annotations: Mapping[str, str] = _NOTHING,
    claim_labels: Mapping[str, str] = _NOTHING,
    claim_annotations: Mapping[str, str] = _NOTHING,
) -> ClaimTemplate:
    """Make the template of a claim spec, with metadata of its own and for the claims it makes."""
    metadata = _metadata(labels, annotations)
    inner: dict[str, Value] = {}
    if claim_metadata := _metadata(claim_labels, claim_annotations):
        inner["metadata"] = claim_metadata
    inner["spec"] = normalize_spec(spec)
    name = TEMPLATE_PREFIX + content_digest({"metadata": metadata, "spec": inner})
    whole: dict[str, Value] = {
        "apiVersion": API_VERSION,
        "kind": TEMPLATE,
        "metadata": {"name": name, **metadata},
        "spec": inner,
    }
    return ClaimTemplate(name, whole)


def content_digest(content: Value) -> str:
    """The part of a name that stands for a content: canonical JSON, hashed."""
    canonical = msgspec.json.encode(content, order="sorted")
    return hashlib.sha256(canonical).hexdigest()[:_DIGITS]


def has_same_content(stored_object: Mapping[str, Value], ours: ClaimTemplate) -> bool:
    """Tell whether a template, as the API server gives it, makes the claims that ours makes.

    What the API server fills in is not looked at, nor labels and annotations that others put on the
    template itself: claims get none of them. Everything that reaches a claim has to be equal.
    """
    if not _within(_object(ours.object, "metadata"), _object(stored_object, "metadata")):
        return False
    theirs, wanted = _object(stored_object, "spec"), _object(ours.object, "spec")
    if _texts(_object(theirs, "metadata")) != _texts(_object(wanted, "metadata")):
        return False
    return equal_json(normalize_spec(_object(theirs, "spec")), _object(wanted, "spec"))


def _object(value: Mapping[str, Value], name: str) -> dict[str, Value]:
    held = value.get(name)
    return held if isinstance(held, dict) else {}


def _texts(metadata: Mapping[str, Value]) -> dict[str, Value]:
    """The labels and annotations of metadata; none is the same as an empty one."""
    return {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}


def _within(ours: Mapping[str, Value], theirs: Mapping[str, Value]) -> bool:
    held = {name: _object(theirs, name) for name in ("labels", "annotations")}
    return all(
        held[name].get(key) == text for name in held for key, text in _object(ours, name).items()
    )


def normalize_spec(spec: Mapping[str, Value]) -> dict[str, Value]:
    """Give a claim spec as the API server stores it: defaults filled in, empty fields left out."""
    whole = _kept(dict(spec))
    devices = whole.get("devices")
    if not isinstance(devices, dict):
        return whole
    requests = devices.get("requests")
    if isinstance(requests, list):
        devices["requests"] = [_request(each) for each in requests]
    return whole


def _metadata(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, Value]:
    both = {"labels": dict(labels), "annotations": dict(annotations)}
    return {name: {**texts} for name, texts in both.items() if texts}


def _kept(value: dict[str, Value]) -> dict[str, Value]:
    """Leave out what is empty; what a driver is told stays as it is."""
    kept: dict[str, Value] = {}
    for name, item in value.items():
        if name == "parameters":
            kept[name] = item
        elif isinstance(item, dict):
            kept[name] = _kept(item)
        elif isinstance(item, list):
            if item:
                kept[name] = [_kept(each) if isinstance(each, dict) else each for each in item]
        elif item is not None and item != "":
            kept[name] = item
    return kept


def _request(request: Value) -> Value:
    if not isinstance(request, dict):
        return request
    filled = dict(request)
    if isinstance(wanted := filled.get("exactly"), dict):
        filled["exactly"] = _wanted(wanted)
    if isinstance(ways := filled.get("firstAvailable"), list):
        filled["firstAvailable"] = [
            _wanted(each) if isinstance(each, dict) else each for each in ways
        ]
    return filled


def _wanted(wanted: dict[str, Value]) -> dict[str, Value]:
    mode = wanted.get("allocationMode") or EXACT_COUNT
    filled = {**wanted, "allocationMode": mode}
    if mode != ALL and not filled.get("count"):
        filled["count"] = 1
    tolerations = filled.get("tolerations")
    if isinstance(tolerations, list):
        filled["tolerations"] = [
            {"operator": "Equal", **each} if isinstance(each, dict) else each
            for each in tolerations
        ]
    capacity = filled.get("capacity")
    amounts = capacity.get("requests") if isinstance(capacity, dict) else None
    if isinstance(capacity, dict) and isinstance(amounts, dict):
        canonical = {name: _canonical(each) for name, each in amounts.items()}
        filled["capacity"] = {**capacity, "requests": canonical}
    return filled


def _canonical(amount: Value) -> Value:
    """Write a quantity as the API server writes it; what is none it would refuse itself."""
    try:
        return from_json(amount).canonical()
    except (QuantityError, TypeError, ValueError):
        return amount
