"""Objects as the API server stores them, as far as anybody reads them."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
DRIVER = "gpu.nvidia.com"
MODE = "drawbridge.dev/translate"
HOST = "kubernetes.io/hostname"
SYSTEM = "kube-system"
PLUGIN_FOLDER = "/var/lib/kubelet/device-plugins"
GROUPS = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
}


def node(name: str, labels: Mapping[str, str], units: Mapping[str, int]) -> Json:
    """Return a node that is ready and empty."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    amounts |= {key: f"{number}" for key, number in units.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, **labels}, "annotations": {}},
        "spec": {"taints": []},
        "status": {
            "capacity": dict(amounts),
            "allocatable": dict(amounts),
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "operatingSystem": "linux"},
        },
    }


def namespace(name: str, labels: Mapping[str, str]) -> Json:
    """Return a namespace."""
    metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def container(limits: Mapping[str, int], **fields: Any) -> Json:  # noqa: ANN401  # JSON
    """Return a container; extended resources have equal requests."""
    amounts = {key: f"{number}" for key, number in limits.items()}
    return {"name": "main", "image": "example.com/x", "resources": {"limits": amounts}, **fields}


def owned(
    kind: str, space: str, name: str, spec: Json, metadata: Mapping[str, Any] | None = None
) -> Json:
    """Return an owner of pods."""
    return {
        "apiVersion": GROUPS[kind],
        "kind": kind,
        "metadata": {"name": name, "namespace": space, **(metadata or {})},
        "spec": spec,
    }


def pod(space: str, name: str, spec: Json, metadata: Mapping[str, Any]) -> Json:
    """Return a pod; one without a node waits."""
    phase = "Running" if spec.get("nodeName") else "Pending"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": space, **metadata},
        "spec": spec,
        "status": {"phase": phase},
    }


def owner_reference(kind: str, name: str, group: str = "") -> Json:
    """Return the reference to a controller."""
    version = group or GROUPS.get(kind, "v1")
    uid = f"{kind}-{name}".lower()
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def budget(space: str, name: str, labels: Mapping[str, str], rule: Mapping[str, Any]) -> Json:
    """Return a PodDisruptionBudget."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": space},
        "spec": {"selector": {"matchLabels": {**labels}}, **rule},
    }


def quota(space: str, name: str, hard: Mapping[str, str]) -> Json:
    """Return a ResourceQuota."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": space},
        "spec": {"hard": {**hard}},
    }


def device_class(name: str, kind: str, extended: str = "") -> Json:
    """Return a class of NVIDIA's driver for devices of a kind: `gpu` or `mig`."""
    text = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "{kind}"'
    spec: Json = {"selectors": [{"cel": {"expression": text}}]}
    if extended:
        spec["extendedResourceName"] = extended
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def resource_slice(name: str, number: int, product: str, count: int = 1) -> Json:
    """Return the slice of a node with whole GPUs; the pool is incomplete if `count` is not 1."""
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {"type": {"string": "gpu"}, "productName": {"string": product}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for index in range(number)
    ]
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": count},
        "devices": devices,
    }
    metadata = {"name": f"{name[:200]}-{DRIVER}"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": metadata,
        "spec": spec,
    }


def local_volume(space: str, claim: str, node_name: str) -> list[Json]:
    """Return a volume on the disk of a node, and its claim."""
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node_name]}]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"local-{space}-{claim}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/disk"},
            "claimRef": {"namespace": space, "name": claim},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    }
    bound = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": space},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": f"local-{space}-{claim}",
        },
        "status": {"phase": "Bound"},
    }
    return [volume, bound]
