"""Draws clusters in which everything goes on, and plants what is stuck in them.

A clean cluster has what looks stuck and is not: pods that wait for devices of others, that a queue
holds back, that pull images, that ended this moment, and claims that nobody has used yet.
"""

import copy
import random
from collections.abc import Callable
from typing import Any

Objects = list[dict[str, Any]]
LONG_AGO, AGO, JUST_NOW, NOW = (
    f"2026-11-24T{time}Z" for time in ("08:00:00", "11:00:00", "11:59:50", "12:00:00")
)
DRIVER, CLASS = "gpu.nvidia.com", "gpu.nvidia.com"
_PROTECTION = "resource.kubernetes.io/delete-protection"
_RUNS = [
    {"type": "PodScheduled", "status": "True", "lastTransitionTime": LONG_AGO},
    {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": LONG_AGO},
]


def draw(seed: int, nodes: int) -> "Cluster":
    """Return a clean cluster."""
    return Cluster(random.Random(seed), nodes)


class Cluster:
    """The objects of a cluster by kind and name."""

    def __init__(self, drawn: random.Random, nodes: int) -> None:
        self.random = drawn
        self.free = [
            (f"n{number}", f"gpu-{device}") for number in range(nodes) for device in range(8)
        ]
        self.objects: Objects = [_device_class(CLASS, DRIVER)]
        self.objects += [each for n in range(nodes) for each in (_node(f"n{n}"), _slice(f"n{n}"))]
        self.objects += [_namespace(f"team-{each}") for each in range(8)]
        self.number = 0
        for _ in range(nodes * 4):
            self.add_running()
        for _ in range(max(1, nodes // 10)):
            self._add_harmless()

    def team(self) -> str:
        """Return one of the namespaces."""
        return f"team-{self.random.randrange(8)}"

    def name(self) -> str:
        """Return a new name."""
        self.number += 1
        return f"p{self.number}"

    def add_running(self, **status: Any) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ANN401  # JSON
        """Add a pod that runs with a device, and return it and its claim."""
        namespace, name = self.team(), self.name()
        node, device = self.free.pop(self.random.randrange(len(self.free)))
        pod = _pod(namespace, name, node, {"phase": "Running", "conditions": _RUNS, **status})
        claim = _claim(namespace, name, node, device)
        self.objects += [pod, claim]
        return pod, claim

    def add_waiting(self, **spec: Any) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ANN401  # JSON
        """Add a pod that waits for devices of others, and return it and its claim."""
        namespace, name = self.team(), self.name()
        full = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "full",
        }
        pod = _pod(namespace, name, "", {"phase": "Pending", "conditions": [full]})
        pod["spec"] |= spec
        claim = _claim(namespace, name, "", "")
        self.objects += [pod, claim]
        return pod, claim

    def _add_harmless(self) -> None:
        self.add_waiting()
        gated, _ = self.add_waiting(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
        gated["status"]["conditions"] = []
        self.add_running(phase="Pending")  # pulls its image
        ended, _ = self.add_running()
        ended["metadata"] |= {"deletionTimestamp": JUST_NOW, "deletionGracePeriodSeconds": 30}
        done, _ = self.add_running(containerStatuses=[_ended(JUST_NOW)])
        done["spec"]["restartPolicy"] = "Never"
        used, claim = self.add_running()
        claim["metadata"] |= {"deletionTimestamp": AGO, "finalizers": [_PROTECTION]}
        del used
        starting, _ = self.add_running(
            phase="Pending", conditions=[{**_RUNS[0], "lastTransitionTime": JUST_NOW}]
        )
        del starting
        lone = _claim(self.team(), self.name(), "", "")
        del lone["metadata"]["ownerReferences"]
        self.objects.append(lone)

    def find(self, kind: str, name: str) -> dict[str, Any]:
        """Return an object."""
        return next(e for e in self.objects if e["kind"] == kind and e["metadata"]["name"] == name)


def _device_class(name: str, driver: str) -> dict[str, Any]:
    selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name, "creationTimestamp": LONG_AGO},
        "spec": {"selectors": selectors},
    }


def _node(name: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": NOW}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110"},
            "conditions": [ready],
            "nodeInfo": {"kubeletVersion": "v1.36.3"},
        },
    }


def _slice(node: str, driver: str = DRIVER) -> dict[str, Any]:
    attributes = {"productName": {"string": "H100"}, "type": {"string": "gpu"}}
    capacity = {"memory": {"value": "80Gi"}}
    devices = [
        {"name": f"gpu-{each}", "attributes": attributes, "capacity": capacity} for each in range(8)
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def _namespace(name: str) -> dict[str, Any]:
    labels = {"drawbridge.dev/translate": "enforce"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _pod(namespace: str, name: str, node: str, status: dict[str, Any]) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs"}
    main = {
        "name": "main",
        "image": "x",
        "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": LONG_AGO,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            **({"nodeName": node} if node else {}),
            "containers": [main],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        },
        "status": {
            **status,
            "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}],
        },
    }


def _claim(namespace: str, pod: str, node: str, device: str) -> dict[str, Any]:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod,
        "uid": f"uid-{pod}",
        "controller": True,
    }
    result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    held = {
        "allocation": allocation,
        "reservedFor": [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"}],
    }
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": namespace,
            "name": f"{pod}-gpu",
            "uid": f"uid-{pod}-gpu",
            "creationTimestamp": LONG_AGO,
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": held if node else {},
    }


def _ended(at: str, code: int = 0) -> dict[str, Any]:
    return {"name": "main", "state": {"terminated": {"exitCode": code, "finishedAt": at}}}


# --- what is planted -----------------------------------------------------------------------------

Plant = Callable[[Cluster], str]


def _name(value: dict[str, Any]) -> str:
    metadata = value["metadata"]
    return "/".join(filter(None, (value["kind"], metadata.get("namespace"), metadata["name"])))


def _foreign_finalizer(cluster: Cluster) -> str:
    _, claim = cluster.add_running()
    claim["metadata"] |= {"deletionTimestamp": AGO, "finalizers": [_PROTECTION, "example.com/bill"]}
    return _name(claim)


def _deleted_and_pod_gone(cluster: Cluster) -> str:
    pod, claim = cluster.add_running()
    cluster.objects.remove(pod)
    claim["metadata"] |= {"deletionTimestamp": AGO, "finalizers": [_PROTECTION]}
    return _name(claim)


def _deleted_never_deallocated(cluster: Cluster) -> str:
    pod, claim = cluster.add_running()
    cluster.objects.remove(pod)
    claim["metadata"] |= {"deletionTimestamp": AGO, "finalizers": [_PROTECTION]}
    claim["status"]["reservedFor"] = []
    return _name(claim)


def _pod_gone(cluster: Cluster) -> str:
    pod, claim = cluster.add_running()
    cluster.objects.remove(pod)
    return _name(claim)


def _pod_replaced(cluster: Cluster) -> str:
    pod, claim = cluster.add_running()
    pod["metadata"]["uid"] = "another"
    pod["status"]["resourceClaimStatuses"] = []
    return _name(claim)


def _owner_gone(cluster: Cluster) -> str:
    pod, claim = cluster.add_waiting()
    cluster.objects.remove(pod)
    return _name(claim)


def _user_claim_of_gone_pod(cluster: Cluster) -> str:
    pod, claim = cluster.add_running()
    cluster.objects.remove(pod)
    del claim["metadata"]["ownerReferences"]
    return _name(claim)


def _class_missing(cluster: Cluster) -> str:
    _, claim = cluster.add_waiting()
    claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "gpu.example.com"
    return _name(claim)


def _driver_missing(cluster: Cluster) -> str:
    cluster.objects.append(_device_class("nic.example.com", "nic.example.com"))
    _, claim = cluster.add_waiting()
    claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "nic.example.com"
    return _name(claim)


def _never_tried(cluster: Cluster) -> str:
    pod, claim = cluster.add_waiting(schedulerName="gone-scheduler")
    pod["status"]["conditions"] = []
    return _name(claim)


def _claim_not_named(cluster: Cluster) -> str:
    pod, _ = cluster.add_waiting()
    pod["status"]["resourceClaimStatuses"] = []
    return _name(pod)


def _node_written_by_hand(cluster: Cluster) -> str:
    _, claim = cluster.add_waiting(nodeName="n0")
    return _name(claim)


def _kubelet_down_before_start(cluster: Cluster) -> str:
    pod, _ = cluster.add_running(phase="Pending")
    _take_down(cluster, pod)
    return _name(pod)


def _prepare_fails(cluster: Cluster) -> str:
    pod, _ = cluster.add_running(phase="Pending", conditions=_RUNS[:1])
    metadata = pod["metadata"]
    about = {"kind": "Pod", **{key: metadata[key] for key in ("namespace", "name", "uid")}}
    cluster.objects.append(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": metadata["namespace"], "name": f"{metadata['name']}.1"},
            "reason": "FailedPrepareDynamicResources",
            "message": "device is not healthy",
            "involvedObject": about,
            "lastTimestamp": JUST_NOW,
        }
    )
    return _name(pod)


def _never_prepared(cluster: Cluster) -> str:
    pod, _ = cluster.add_running(phase="Pending", conditions=_RUNS[:1])
    return _name(pod)


def _bound_elsewhere(cluster: Cluster) -> str:
    pod, _ = cluster.add_running(phase="Pending", conditions=_RUNS[:1])
    pod["spec"]["nodeName"] = "n0" if pod["spec"]["nodeName"] != "n0" else "n1"
    return _name(pod)


def _never_unprepared(cluster: Cluster) -> str:
    pod, _ = cluster.add_running(containerStatuses=[_ended(AGO, 137)])
    pod["metadata"] |= {"deletionTimestamp": AGO, "deletionGracePeriodSeconds": 30}
    return _name(pod)


def _job_never_finished(cluster: Cluster) -> str:
    pod, _ = cluster.add_running(containerStatuses=[_ended(AGO)])
    pod["spec"]["restartPolicy"] = "OnFailure"
    return _name(pod)


def _kubelet_down_at_end(cluster: Cluster) -> str:
    pod, _ = cluster.add_running()
    pod["metadata"] |= {"deletionTimestamp": AGO, "deletionGracePeriodSeconds": 30}
    _take_down(cluster, pod)
    return _name(pod)


def _finished_but_reserved(cluster: Cluster) -> str:
    _, claim = cluster.add_running(phase="Succeeded", containerStatuses=[_ended(AGO)])
    return _name(claim)


def _device_lost(cluster: Cluster) -> str:
    _, claim = cluster.add_running()
    result = claim["status"]["allocation"]["devices"]["results"][0]
    slice_ = cluster.find("ResourceSlice", f"{result['pool']}-{DRIVER}")
    spec = copy.deepcopy(slice_["spec"])
    spec["devices"] = [each for each in spec["devices"] if each["name"] != result["device"]]
    spec["pool"]["generation"] = 2
    slice_["spec"] = spec
    return _name(claim)


def _namespace_hangs(cluster: Cluster) -> str:
    namespace = _namespace("leaving")
    namespace["metadata"]["deletionTimestamp"] = AGO
    pod, claim = cluster.add_running()
    for each in (pod, claim):
        each["metadata"]["namespace"] = "leaving"
    cluster.objects.append(namespace)
    return _name(namespace)


def _take_down(cluster: Cluster, pod: dict[str, Any]) -> None:
    node = cluster.find("Node", pod["spec"]["nodeName"])
    down = {"type": "Ready", "status": "Unknown", "lastTransitionTime": AGO}
    node["status"] = {**node["status"], "conditions": [{**down, "lastHeartbeatTime": AGO}]}


PLANTS: tuple[Plant, ...] = (
    _foreign_finalizer,
    _deleted_and_pod_gone,
    _deleted_never_deallocated,
    _pod_gone,
    _pod_replaced,
    _owner_gone,
    _user_claim_of_gone_pod,
    _class_missing,
    _driver_missing,
    _never_tried,
    _claim_not_named,
    _node_written_by_hand,
    _kubelet_down_before_start,
    _prepare_fails,
    _never_prepared,
    _bound_elsewhere,
    _never_unprepared,
    _job_never_finished,
    _kubelet_down_at_end,
    _finished_but_reserved,
    _device_lost,
    _namespace_hangs,
)
