"""Keeps the role that a pod has in its group of Kueue.

Kueue's webhook writes a hash of what the scheduler reads of a pod to an annotation, unless it has
one, and does not admit a pod whose role the group lacks. A translation depends on the facts, and a
replacement pod can come after these have changed. So the role is that of the pod as asked. A
manifest gets none: the API server has not filled in its requests, and no facts change its
translation. Read in Kueue 0.19 (`GenerateRoleHash`).
"""

import contextlib
import hashlib
import json
from collections.abc import Mapping
from typing import Final

from drawbridge.documents.paths import Path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.translate.changes.patch import Patch

# A label of the members; with a feature gate of Kueue, an annotation.
_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
_ROLE: Final[Path] = ("metadata", "annotations", "kueue.x-k8s.io/role-hash")
_FIELDS: Final = (
    "affinity",
    "nodeSelector",
    "overhead",
    "priority",
    "resourceClaims",
    "runtimeClassName",
    "tolerations",
    "topologySpreadConstraints",
)
READS: Final = frozenset({"container.ports", "spec.resources", *map("spec.{}".format, _FIELDS)})


def keep_role(patch: Patch, asked: Value) -> None:
    """Write the role of the pod as asked to a changed member of a group, unless it has one."""
    metadata = as_mapping(get_value(asked, ("metadata",)))
    is_member = any(
        as_mapping(metadata.get(each)).get(_GROUP) for each in ("labels", "annotations")
    )
    if patch.edits and is_member and get_value(asked, _ROLE) is None:
        with contextlib.suppress(RecursionError):  # no API server accepts such a pod
            patch.put(_ROLE, hash_role(as_mapping(get_value(asked, ("spec",)))))


def hash_role(spec: Mapping[str, Value]) -> str:
    """Return Kueue's hash of a pod's spec, as the API server writes it."""
    shape: dict[str, Value] = {name: spec.get(name) for name in _FIELDS}
    for name in ("containers", "initContainers"):
        shape[name] = [*map(_reduce_container, as_list(spec.get(name)))] or None
    if (resources := spec.get("resources")) is not None:
        shape["resources"] = as_mapping(resources).get("requests")
    text = json.dumps({"spec": dict(sorted(shape.items()))}, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _reduce_container(container: Value) -> Value:
    fields = as_mapping(container)
    requests = as_mapping(fields.get("resources")).get("requests")
    return {"ports": fields.get("ports"), "resources": {"requests": requests}}
