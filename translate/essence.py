"""What of a pod a translation looks at, so that pods of many owners that ask alike are seen as one.

A pod and its essence are translated alike: lists have as many items and objects the same keys as
the pod, so that what is edited in one is edited in the other. Left out is only what says nothing
of devices in any dialect: images, commands, probes, most of the environment. Knows no dialect.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from documents.values import Value

_ENCODER: Final = msgspec.msgpack.Encoder()
# Halves of characters, numbers of more than 64 bits, what is nested too deeply or no value.
_UNWRITABLE: Final = (ValueError, OverflowError, RecursionError, TypeError, msgspec.MsgspecError)
# Of a container. What is not named here stays.
_UNREAD: Final = frozenset(
    {
        "image",
        "command",
        "args",
        "ports",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "workingDir",
        "terminationMessagePath",
        "volumeMounts",
    }
)
_ENVIRONMENT: Final = ("NVIDIA_", "CUDA_", "HIP_", "ROCR_", "ZE_", "NCCL_", "NVSHMEM_", "GPU_")
_OF_POD: Final = frozenset(
    {"hostname", "subdomain", "serviceAccountName", "serviceAccount", "imagePullSecrets"}
)
# Labels and annotations that Kubernetes, kubectl and deployments write for themselves.
_WRITTEN: Final = (
    "app.kubernetes.io/",
    "apps.kubernetes.io/",
    "batch.kubernetes.io/",
    "kubectl.kubernetes.io/",
    "statefulset.kubernetes.io/",
    "controller-",
    "pod-template-hash",
    "helm.sh/",
)
_WORDS: Final = frozenset({"app", "name", "version", "instance", "component", "job-name"})
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_OF_METADATA: Final = frozenset(
    {
        "name",
        "generateName",
        "ownerReferences",
        "managedFields",
        "uid",
        "creationTimestamp",
        "resourceVersion",
    }
)


def essence_key(pod: Value, namespace: str = "") -> bytes | None:
    """Write the essence of a pod so that equal bytes are equal values; None of what is none.

    Not as JSON, which has one word for null and for numbers that are none.
    """
    if not isinstance(pod, dict):
        return None
    try:
        return _ENCODER.encode((namespace, reduce_to_essence(pod)))
    except _UNWRITABLE:
        return None


def reduce_to_essence(pod: Mapping[str, Value]) -> Value:
    """Give a pod as a translation looks at it."""
    metadata, spec = pod.get("metadata"), pod.get("spec")
    result = {**pod}
    if isinstance(metadata, dict):
        kept: dict[str, Value] = {
            key: None if key in _OF_METADATA else value for key, value in metadata.items()
        }
        for part in ("labels", "annotations"):
            if isinstance(texts := kept.get(part), dict):
                kept[part] = {key: "" if _written(key) else texts[key] for key in texts}
        result["metadata"] = kept
    if isinstance(spec, dict):
        result["spec"] = _spec(spec)
    return result


def _written(key: str) -> bool:
    return key in _WORDS or key.startswith(_WRITTEN)


def _spec(spec: Mapping[str, Value]) -> Value:
    kept: dict[str, Value] = {key: None if key in _OF_POD else value for key, value in spec.items()}
    for part in _CONTAINERS:
        if isinstance(listed := kept.get(part), list):
            kept[part] = [_container(each) for each in listed]
    if isinstance(volumes := kept.get("volumes"), list):
        kept["volumes"] = [_volume(each) for each in volumes]
    return kept


def _container(one: Value) -> Value:
    if not isinstance(one, dict):
        return one
    kept: dict[str, Value] = {key: None if key in _UNREAD else value for key, value in one.items()}
    if isinstance(env := kept.get("env"), list):
        kept["env"] = _environment(env)
    return kept


def _environment(listed: list[Value]) -> Value:
    """Keep the variables about devices; of every other one only that it is there can count."""
    kept = []
    for each in listed:
        name = each.get("name") if isinstance(each, dict) else None
        other = isinstance(name, str) and not name.startswith(_ENVIRONMENT)
        kept.append({"name": name} if other else each)
    return kept


def _volume(one: Value) -> Value:
    """A volume counts where it shows the host's files."""
    return one if isinstance(one, dict) and "hostPath" in one else None
