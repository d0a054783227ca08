"""A cluster of 100 nodes that is nearly full, for `drawbridge audit`: many owners ask for the same.

Three quarters of the GPUs have pods: of Deployments, StatefulSets and Jobs with one, two or four
pods, each with as many GPUs, on nodes of one pool with a device plugin. Every fifth owner has a
PodDisruptionBudget. The rehearsal moves the nodes one by one, and asks of each owner's pods where
else they could be, with several schedulers.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench._scale import scaled

NODES: Final = scaled(100, 10)
NAMESPACES, GPUS, FULL = 10, 8, 6
_LABELS: Final = {
    "nvidia.com/gpu.product": "NVIDIA-L4",
    "nvidia.com/gpu.count": f"{GPUS}",
    "nvidia.com/gpu.memory": "23034",
}
_OWNERS: Final = (("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("batch/v1", "Job"))
_SIZES: Final = (1, 2, 4)


def _nodes() -> Iterator[dict[str, Any]]:
    for number in range(NODES):
        name = f"node-{number:04}"
        labels = _LABELS | {"kubernetes.io/hostname": name, "pool": f"{number % 8}"}
        allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": f"{GPUS}"}
        metadata = {"name": name, "labels": labels}
        kinds = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        yield {**kinds, "spec": {}, "status": {"allocatable": allocatable}}


def _template(name: str, limits: dict[str, str]) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}


def _plugin() -> dict[str, Any]:
    template = _template("plugin", {})
    template["spec"]["containers"][0]["image"] = "nvidia/k8s-device-plugin"
    folder = {"path": "/var/lib/kubelet/device-plugins"}
    template["spec"]["volumes"] = [{"name": "kubelet", "hostPath": folder}]
    metadata = {"name": "nvidia-device-plugin", "namespace": "kube-system"}
    kinds = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata}
    return {**kinds, "spec": {"template": template}}


def _workloads() -> Iterator[dict[str, Any]]:
    """Yield owners with their pods, on one node after the other until all are as full."""
    free, owner, node = [FULL] * NODES, 0, 0
    while any(free):
        gpus, pods = _SIZES[owner % 3], _SIZES[owner // 3 % 3]
        places = []
        for _ in range(pods):
            step = next((n for n in range(NODES) if free[(node + n) % NODES] >= gpus), None)
            if step is None:
                break
            places.append((node + step) % NODES)
            free[places[-1]] -= gpus
            node += 7  # so that the pods of an owner are on several nodes
        yield from _owner(owner, gpus, places) if places else ()
        owner += 1


def _owner(number: int, gpus: int, places: list[int]) -> Iterator[dict[str, Any]]:
    (version, kind), name = _OWNERS[number % 7 % 3], f"w-{number}"
    space = {"namespace": f"team-{number % NAMESPACES}"}
    template = _template(name, {"nvidia.com/gpu": f"{gpus}"})
    selector = {"matchLabels": {"app": name}}
    count = "parallelism" if kind == "Job" else "replicas"
    spec = {count: len(places), "selector": selector, "template": template}
    kinds = {"apiVersion": version, "kind": kind}
    yield {**kinds, "metadata": {"name": name, **space}, "spec": spec}
    reference = {**kinds, "name": name, "uid": name, "controller": True}
    for place, at in enumerate(places):
        metadata = {"name": f"{name}-{place}", **space, "ownerReferences": [reference]}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, **template["metadata"]},
            "spec": {**template["spec"], "nodeName": f"node-{at:04}"},
            "status": {"phase": "Running"},
        }
    if number % 5 == 0:
        budget = {"minAvailable": 1, "selector": selector}
        kinds = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        yield {**kinds, "metadata": {"name": name, **space}, "spec": budget}


def write_cluster(folder: Path) -> None:
    """Write the objects as a List."""
    value = {"apiVersion": "v1", "kind": "List", "items": [*_nodes(), _plugin(), *_workloads()]}
    (folder / "cluster.json").write_text(json.dumps(value))


def check(printed: bytes) -> None:
    """Fail if the plan does not move all nodes, or leaves pods with a plugin or without devices."""
    last = json.loads(printed)["steps"][-1]["expected"]
    asked = last["onPlugins"], last["waiting"], last["pluginNodes"], last["driverNodes"]
    if asked != (0, 0, 0, NODES):
        raise SystemExit(f"the plan leaves pods or nodes: {last}")
