"""What of a pod a translation looks at, so that pods of many owners that ask alike are seen as one.

A pod is translated from its essence alone, whether the answer is remembered or not: lists have as
many items and objects the same keys as the pod, so that what is edited in one is edited in the
other. Left out is only what says nothing of devices in any dialect: images, commands, probes, most
of the environment. Knows no dialect.
"""

from collections.abc import Mapping
from typing import Final

from documents.values import Value

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


def essence(pod: Mapping[str, Value]) -> Value:
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
        kept["env"] = [_variable(each) for each in env]
    return kept


def _variable(one: Value) -> Value:
    name = one.get("name") if isinstance(one, dict) else None
    if not isinstance(name, str):
        return None  # no variable, whatever it is
    # Of every other one only that it is there can count.
    return one if name.startswith(_ENVIRONMENT) else {"name": name}


def _volume(one: Value) -> Value:
    """A volume counts where it shows the host's files."""
    return one if isinstance(one, dict) and "hostPath" in one else None
