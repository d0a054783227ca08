"""Reduces a pod to the fields that determine its translation, as a cache key.

Pods of different owners with equal device requests share one essence. A pod and its essence have
the same translation: lists keep their length and objects keep their keys, so that edits of one fit
the other. The essence has the values of the fields that dialects and the other steps of a
translation declare to read, and null for any other field.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from drawbridge import pod_groups
from drawbridge.documents.values import Value, as_mapping
from drawbridge.names import ORIGINAL_ANNOTATION
from drawbridge.translate.changes import kueue_roles
from drawbridge.translate.changes.environment import DEVICE_VARIABLES
from drawbridge.translate.changes.undo import CONTAINER_LISTS
from drawbridge.translate.legacy import pod_view
from drawbridge.translate.legacy.asks import SET_VARIABLES
from drawbridge.translate.legacy.read import DIALECTS

_ENCODER: Final = msgspec.msgpack.Encoder()
# Lone surrogates, integers of more than 64 bits, values that are nested too deeply or not JSON.
_NOT_ENCODABLE: Final = (ValueError, OverflowError, RecursionError, TypeError, msgspec.MsgspecError)
# The fields that the other steps of a translation read, in addition to the dialects.
_READ_BY_OTHER_STEPS: Final = frozenset(
    {
        # node labels and dual nodes
        "spec.affinity",
        "spec.nodeSelector",
        "spec.topologySpreadConstraints",
        # the environment
        "container.env",
        "container.resizePolicy",
        "container.securityContext",
        "spec.runtimeClassName",
        "spec.tolerations",
        "spec.volumes",
        # claims of the user, and whether the pod can be changed
        "spec.nodeName",
        "spec.resourceClaims",
        # the groups of pods
        *(f"spec.{field}" for field in pod_groups.FIELDS),
    }
)
_READ_VARIABLES: Final = DEVICE_VARIABLES | SET_VARIABLES
_READ: Final = pod_view.READS.union(
    _READ_BY_OTHER_STEPS, kueue_roles.READS, *(dialect.READS for dialect in DIALECTS)
)


def _list_fields(part: str) -> frozenset[str]:
    """Return the fields of one part of a pod that a translation reads."""
    prefix = f"{part}."
    return frozenset(path.removeprefix(prefix) for path in _READ if path.startswith(prefix))


METADATA_FIELDS: Final = tuple(sorted(_list_fields("metadata")))
_READ_OF_METADATA: Final = frozenset(METADATA_FIELDS)
_READ_OF_POD: Final = _list_fields("spec")
_READ_OF_CONTAINER: Final = _list_fields("container")
# Labels and annotations that Kubernetes, kubectl and deployment tools set.
_TOOL_PREFIXES: Final = (
    "app.kubernetes.io/",
    "apps.kubernetes.io/",
    "batch.kubernetes.io/",
    "kubectl.kubernetes.io/",
    "statefulset.kubernetes.io/",
    "controller-",
    "pod-template-hash",
    "helm.sh/",
)
_TOOL_KEYS: Final = frozenset({"app", "name", "version", "instance", "component", "job-name"})


def essence_key(pod: Value, *namespace: str | bool | None) -> bytes | None:
    """Encode the essence of a pod so that equal bytes mean equal values; None if impossible.

    `namespace` is what is known about the namespace of the pod.
    The encoding is not JSON, because JSON writes null and NaN alike.
    """
    if not isinstance(pod, dict):
        return None
    try:
        return _ENCODER.encode((namespace, reduce_to_essence(pod)))
    except _NOT_ENCODABLE:
        return None


def reduce_to_essence(pod: Mapping[str, Value]) -> Value:
    """Return the pod with null for every field that no translation reads."""
    metadata, spec = pod.get("metadata"), pod.get("spec")
    result = {**pod}
    if isinstance(metadata, dict):
        kept: dict[str, Value] = {
            key: value if key in _READ_OF_METADATA else None for key, value in metadata.items()
        }
        for part in ("labels", "annotations"):
            if isinstance(texts := kept.get(part), dict):
                kept[part] = {key: _reduce_text(key, texts[key]) for key in texts}
        result["metadata"] = kept
    if isinstance(spec, dict):
        annotations = as_mapping(as_mapping(metadata).get("annotations"))
        result["spec"] = _reduce_spec(spec, has_undo=ORIGINAL_ANNOTATION in annotations)
    return result


def _reduce_text(key: str, value: Value) -> Value:
    """Blank what tools set, and the names of groups: a translation reads whether there is one."""
    if _is_set_by_tool(key):
        return ""
    return _reduce_name(value) if key in pod_groups.LABELS else value


def _reduce_name(value: Value) -> Value:
    return "-" if value and isinstance(value, str) else value


def _is_set_by_tool(key: str) -> bool:
    return key in _TOOL_KEYS or key.startswith(_TOOL_PREFIXES)


def _reduce_spec(spec: Mapping[str, Value], *, has_undo: bool) -> Value:
    kept: dict[str, Value] = {
        key: value if key in _READ_OF_POD else None for key, value in spec.items()
    }
    for part in CONTAINER_LISTS:
        if isinstance(listed := kept.get(part), list):
            kept[part] = [_reduce_container(each, has_undo=has_undo) for each in listed]
    for field in pod_groups.FIELDS:
        if isinstance(group := kept.get(field), dict):
            kept[field] = {key: _reduce_name(value) for key, value in group.items()}
    if isinstance(volumes := kept.get("volumes"), list):
        kept["volumes"] = [_reduce_volume(each) for each in volumes]
    return kept


def _reduce_container(container: Value, *, has_undo: bool) -> Value:
    if not isinstance(container, dict):
        return container
    kept: dict[str, Value] = {
        key: value if key in _READ_OF_CONTAINER else None for key, value in container.items()
    }
    if isinstance(env := kept.get("env"), list):
        kept["env"] = _reduce_environment(env, has_undo=has_undo)
    return kept


def _reduce_environment(listed: list[Value], *, has_undo: bool) -> Value:
    """Keep the variables that a translation reads, and then of every other variable the name.

    The undo of a variable that is removed has the name of its neighbor: an undo patch to be made,
    or one that the pod has.
    """
    read: list[Value] = [
        variable
        if isinstance(variable, dict)
        and isinstance(name := variable.get("name"), str)
        and name in _READ_VARIABLES
        else None
        for variable in listed
    ]
    if has_undo or any(read):
        names = map(_reduce_variable, listed)
        return [variable or named for variable, named in zip(read, names, strict=True)]
    return read


def _reduce_variable(variable: Value) -> Value:
    if isinstance(variable, dict) and isinstance(name := variable.get("name"), str):
        return {"name": name}
    return variable


def _reduce_volume(volume: Value) -> Value:
    """Keep a hostPath volume; blank any other volume."""
    return volume if isinstance(volume, dict) and "hostPath" in volume else None
