"""A cluster of 500 nodes with 5,000 pods in the middle of its migration, for `drawbridge audit`.

The nodes have 8 GPUs each: four fifths have a device plugin with the labels of feature discovery,
or HAMi's list, and one fifth has a driver. Pods of 200 owners in 40 namespaces ask for whole GPUs,
for products or for shares; the others ask for none. The answer is checked against how the cluster
was made.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench._scale import scaled

NODES: Final = scaled(500, 20)
PODS: Final = scaled(5_000, 200)
NAMESPACES, OWNERS, GPUS = 40, 200, 8
_REGISTER: Final = json.dumps(
    [
        {
            "id": f"GPU-{n}",
            "index": n,
            "count": 10,
            "devmem": 81_559,
            "devcore": 100,
            "type": "H100",
        }
        for n in range(GPUS)
    ]
)
_LABELS: Final = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.count": f"{GPUS}",
    "nvidia.com/gpu.memory": "81559",
}


def kind_of(node: int) -> str:
    """Return whose devices a node has."""
    return ("plugin", "plugin", "hami", "plugin", "driver")[node % 5]


def nodes() -> Iterator[dict[str, Any]]:
    """Make the nodes."""
    for number in range(NODES):
        kind = kind_of(number)
        units = {"plugin": GPUS, "hami": GPUS * 10, "driver": 0}[kind]
        labels = {"kubernetes.io/hostname": f"node-{number:04}", "pool": kind}
        annotations = {"hami.io/node-nvidia-register": _REGISTER} if kind == "hami" else {}
        allocatable = {"cpu": "128", "memory": "1000Gi", "pods": "110"}
        if units:
            allocatable["nvidia.com/gpu"] = f"{units}"
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"node-{number:04}",
                "labels": labels | (_LABELS if kind == "plugin" else {}),
                "annotations": annotations,
            },
            "status": {"allocatable": allocatable},
        }


def plugins() -> Iterator[dict[str, Any]]:
    """Make the DaemonSets of the plugins."""
    for kind, image in (("plugin", "nvidia/k8s-device-plugin"), ("hami", "projecthami/hami")):
        folder = {"path": "/var/lib/kubelet/device-plugins"}
        spec = {
            "nodeSelector": {"pool": kind},
            "containers": [{"name": "main", "image": image}],
            "volumes": [{"name": "kubelet", "hostPath": folder}],
        }
        yield {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": f"{kind}-daemons", "namespace": "kube-system"},
            "spec": {"template": {"spec": spec}},
        }


def devices() -> Iterator[dict[str, Any]]:
    """Make the class, and the slices of the nodes that have a driver."""
    driver = "gpu.nvidia.com"
    expression = f'device.driver == "{driver}" && device.attributes["{driver}"].type == "gpu"'
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": driver},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    for number in range(NODES):
        if kind_of(number) != "driver":
            continue
        name = f"node-{number:04}"
        attributes = {
            "type": {"string": "gpu"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
        }
        listed = [
            {
                "name": f"gpu-{n}",
                "attributes": {**attributes, "uuid": {"string": f"GPU-{number}-{n}"}},
                "capacity": {"memory": {"value": "81559Mi"}},
            }
            for n in range(GPUS)
        ]
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-{driver}"},
            "spec": {
                "driver": driver,
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": listed,
            },
        }


def pods() -> Iterator[dict[str, Any]]:
    """Make the pods: half of them ask for devices, at most one unit of ten on each node."""
    for number in range(PODS):
        owner = number % OWNERS
        node = number % NODES
        kind = kind_of(node)
        limits: dict[str, str] = {}
        if (number // NODES) % 2 == 0 and kind != "driver":
            limits["nvidia.com/gpu"] = "1"
            if kind == "hami":
                limits |= {"nvidia.com/gpumem": f"{8_000 + owner}", "nvidia.com/gpucores": "10"}
        spec: dict[str, Any] = {
            "nodeName": f"node-{node:04}",
            "containers": [
                {
                    "name": "main",
                    "image": "example.com/app",
                    "env": [{"name": f"V{n}", "value": "x" * 40} for n in range(20)],
                    "resources": {
                        "requests": {"cpu": "2", "memory": "8Gi"},
                        "limits": limits,
                    },
                }
            ],
        }
        if limits and kind == "plugin" and owner % 3 == 0:
            spec["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"app-{owner}-5d4f-{number}",
                "namespace": f"team-{owner % NAMESPACES}",
                "labels": {"pod-template-hash": "5d4f"},
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "ReplicaSet",
                        "name": f"app-{owner}-5d4f",
                        "uid": f"{owner}",
                        "controller": True,
                    }
                ],
            },
            "spec": spec,
            "status": {"phase": "Running"},
        }


def write_cluster(folder: Path) -> None:
    """Write the objects as kubectl does, a List in each file."""
    several = {"nodes": nodes(), "plugins": plugins(), "devices": devices(), "pods": pods()}
    for name, objects in several.items():
        value = {"apiVersion": "v1", "kind": "List", "items": [*objects]}
        (folder / f"{name}.json").write_text(json.dumps(value, indent=4))


def check(printed: bytes) -> None:
    """Fail if the command does not move all pods, or leaves a device plugin."""
    audit = json.loads(printed)
    asking = [each for each in pods() if each["spec"]["containers"][0]["resources"]["limits"]]
    moved = audit["summary"]["pods"], sum(e["pods"]["toTranslate"] for e in audit["namespaces"])
    if moved != (len(asking), len(asking)):
        raise SystemExit(f"{moved} pods are to translate, expected {len(asking)}")
    fit = audit["fit"]
    if (fit["pods"], fit["packed"]) != (PODS, PODS):
        raise SystemExit(f"not all pods fit: {json.dumps(fit)[:1000]}")
    last = audit["steps"][-1]["expected"]
    if (last["onPlugins"], last["pluginNodes"]) != (0, 0):
        raise SystemExit(f"the plan leaves plugins: {last}")
