"""Writes a played cluster back as objects, so that it can be audited where it stands."""

import json
from collections.abc import Iterator
from copy import deepcopy

from tests.audit.player.cluster import PlayedCluster
from tests.audit.player.state import DEVICES, GPU, MODE, Json, Life, Machine

KINDS = ("Node", "Pod", "Namespace", "ResourceSlice", "Job", "DaemonSet", "ResourceClaimTemplate")
CLASS = "gpu.nvidia.com"


def write_objects(cluster: PlayedCluster) -> list[Json]:
    """Return the objects of a cluster as it is now, for pods with whole GPUs."""
    others = [each for each in cluster.objects if each["kind"] not in KINDS]
    return [*others, *_nodes(cluster), *_namespaces(cluster), *_owners(cluster), *_pods(cluster)]


def _nodes(cluster: PlayedCluster) -> Iterator[Json]:
    for original in cluster.objects:
        if original["kind"] != "Node":
            continue
        node = deepcopy(original)
        machine = cluster.machines[node["metadata"]["name"]]
        node["metadata"] |= {"labels": dict(machine.labels), "annotations": dict(machine.notes)}
        node["spec"]["unschedulable"] = machine.cordoned
        for part in ("capacity", "allocatable"):
            # A kubelet says 0 of a name whose plugin is gone.
            for name in [each for each in node["status"][part] if "/" in each]:
                node["status"][part][name] = f"{machine.units.get(name, 0)}"
        yield node
        if machine.published:
            yield _slice(machine)
        for number, owner in enumerate(sorted(machine.plugins)):
            yield _plugin_pod(cluster, owner, machine.name, number)


def _slice(machine: Machine) -> Json:
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"type": {"string": "gpu"}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for number in range(machine.published.get(CLASS, 0))
    ]
    pool = {"name": machine.name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{machine.name}-{CLASS}"},
        "spec": {"driver": CLASS, "nodeName": machine.name, "pool": pool, "devices": devices},
    }


def _plugin_pod(cluster: PlayedCluster, owner: str, node: str, number: int) -> Json:
    spec = cluster.daemons[f"kube-system/DaemonSet/{owner}"]["template"]["spec"]
    metadata = {
        "name": f"{owner}-{node}-{number}",
        "namespace": "kube-system",
        "labels": {"app": owner},
        "ownerReferences": [{"kind": "DaemonSet", "name": owner, "controller": True}],
    }
    status = {"phase": "Running"}
    made = {"metadata": metadata, "spec": {**spec, "nodeName": node}, "status": status}
    return {"apiVersion": "v1", "kind": "Pod", **made}


def _namespaces(cluster: PlayedCluster) -> Iterator[Json]:
    for original in cluster.objects:
        if original["kind"] == "Namespace":
            namespace = deepcopy(original)
            labels = namespace["metadata"]["labels"]
            labels.pop(MODE, None)
            if mode := cluster.modes[namespace["metadata"]["name"]]:
                labels[MODE] = mode
            yield namespace


def _owners(cluster: PlayedCluster) -> Iterator[Json]:
    for name, original in cluster.owners.items():
        if original["kind"] not in ("Job", "DaemonSet"):
            continue
        owner = deepcopy(original)
        if original["kind"] == "DaemonSet":
            owner["spec"] = cluster.daemons[name]
        elif name in cluster.suspended:
            owner["spec"]["suspend"] = True
            owner["metadata"]["annotations"] = {"drawbridge.dev/moving": "suspended"}
        elif cluster.failures[name]:
            owner["status"] = {"failed": cluster.failures[name]}
        yield owner


def _pods(cluster: PlayedCluster) -> Iterator[Json]:
    for key, life in (*cluster.pods.items(), *((-n, e) for n, e in enumerate(cluster.owed, 1))):
        pod = deepcopy(life.original)
        # Pods that came later have names of their own.
        pod["metadata"]["name"] = (
            f"p{key}" if not life.owner.startswith("Pod/") else (life.owner.removeprefix("Pod/"))
        )
        pod["spec"] = {**life.spec, **({"nodeName": life.node} if life.node else {})}
        pod["status"] = {"phase": "Running" if life.node else "Pending"}
        if life.claims:
            yield from _with_claims(pod, life)
        elif life.served == "driver":
            mapping = {"containerName": "main", "resourceName": GPU, "requestName": "x"}
            pod["status"]["extendedResourceClaimStatus"] = {
                "resourceClaimName": "made",
                "requestMappings": [mapping],
            }
            yield pod
        else:
            yield pod


def _with_claims(pod: Json, life: Life) -> Iterator[Json]:
    number = life.limits.get(GPU, 0)
    if not number:  # it was written with claims
        yield pod
        return
    name = f"drawbridge-{number}"
    spec = pod["spec"] = deepcopy(pod["spec"])
    del spec["containers"][0]["resources"]["limits"][GPU]
    spec["containers"][0]["resources"]["claims"] = [{"name": "drawbridge", "request": "gpu"}]
    spec["resourceClaims"] = [{"name": "drawbridge", "resourceClaimTemplateName": name}]
    undo = [
        {"op": "remove", "path": "/spec/resourceClaims"},
        {"op": "remove", "path": "/spec/containers/0/resources/claims"},
        {
            "op": "add",
            "path": "/spec/containers/0/resources/limits/nvidia.com~1gpu",
            "value": f"{number}",
        },
    ]
    pod["metadata"].setdefault("annotations", {})["drawbridge.dev/original"] = json.dumps(undo)
    yield pod
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS, "count": number}}
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": life.space},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


__all__ = ["DEVICES", "write_objects"]
