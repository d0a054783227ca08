"""Clusters for the page: a small one to look at, a large one to measure, and a hostile one."""

from collections.abc import Iterator
from typing import Any

JSON = dict[str, Any]
DRIVER = "gpu.nvidia.com"
_DRA = "resource.k8s.io/v1"
_SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}
_STARTED = "2026-01-01T08:00:00Z"
_PATIENT = "0/9 nodes are available: 9 cannot allocate all claims."


def make_small_cluster() -> list[JSON]:
    """Return a cluster in the middle of its migration, with every state of a device."""
    objects = [*_namespaces()]
    for number in range(3):
        objects += _driver_node(f"h100-{number + 1}", "h100", number * 3 + 2)
    objects += _shared_node("a10-1")
    objects += _partitioned_node("a100-1")
    for number in range(2):
        objects += _plugin_node(f"l4-{number + 1}", 4, number + 2)
    for namespace, name in (("team-vision", "finetune"), ("team-speech", "evaluate")):
        objects += [_waiting(namespace, name, _PATIENT), _pending_claim(namespace, name)]
    return objects


def make_large_cluster() -> Iterator[JSON]:
    """Yield a cluster of 500 nodes with 8 devices each, of which 7 are held."""
    yield from _namespaces()
    for number in range(500):
        pool = f"pool-{number % 4}"
        yield from _driver_node(f"{pool}-{number:04}", pool, 7, 8)
    for number in range(50):
        yield _waiting("team-vision", f"waits-{number}", _PATIENT)


def make_hostile_cluster(name: str) -> list[JSON]:
    """Return a cluster in which whoever may write something wrote this."""
    slice_ = _slice("n1", [{"name": name, "attributes": {"productName": {"string": name}}}])
    pod = _waiting(name, name, name)
    pod["spec"]["schedulingGates"] = [{"name": name}]
    node = make_node("n1", name)
    node["metadata"]["labels"][name] = name
    claim = _claim(name, name, "n1", name)
    held = {"resource": "pods", "name": name, "uid": name}
    claim["status"]["reservedFor"] = [held]
    running = _pod(name, f"{name}2", node="n1", limits={"nvidia.com/gpu": name, f"{name}/x": 1})
    running["metadata"]["annotations"] = {"hami.io/vgpu-devices-allocated": f"{name},NVIDIA,1,1:;"}
    return [node, slice_, claim, pod, running]


def _namespaces() -> Iterator[JSON]:
    modes = {"team-vision": "enforce", "team-speech": "enforce", "team-legacy": "off"}
    for name, mode in modes.items():
        labels = {"drawbridge.dev/translate": mode}
        metadata = {"name": name, "labels": labels}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def make_node(name: str, pool: str, **allocatable: str) -> JSON:
    """Return a node of a pool."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"node-pool": pool}, "annotations": {}},
        "status": {
            "allocatable": {"cpu": "96", "memory": "1Ti", "pods": "110", **allocatable},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _slice(node: str, devices: list[JSON], **more: Any) -> JSON:  # noqa: ANN401  # JSON
    pool = {"name": node, "generation": 1, "resourceSliceCount": more.pop("slices", 1)}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, **more}
    if devices:
        spec["devices"] = devices
    name = f"{node}-{'devices' if devices else 'counters'}"
    return {"apiVersion": _DRA, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def _gpu(number: int, product: str, total: int) -> JSON:
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "productName": {"string": product},
            "resource.kubernetes.io/numaNode": {"int": number * 2 // total},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{16 + number // 2 * 16:02x}"},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    }


def _claim(namespace: str, name: str, node: str, device: str, **result: Any) -> JSON:  # noqa: ANN401  # JSON
    allocated = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device, **result}
    return {
        "apiVersion": _DRA,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        "spec": _SPEC,
        "status": {
            "allocation": {"devices": {"results": [allocated]}, "allocationTimestamp": _STARTED},
            "reservedFor": [{"resource": "pods", "name": name, "uid": name}],
        },
    }


def _pending_claim(namespace: str, name: str) -> JSON:
    claim = _claim(namespace, name, "", "")
    return {**claim, "status": {}}


def _pod(namespace: str, name: str, node: str = "", limits: JSON | None = None) -> JSON:
    resources = {"limits": limits} if limits else {"claims": [{"name": "gpu"}]}
    container = {"name": "main", "resources": resources}
    entry = {"name": "gpu", "resourceClaimTemplateName": "drawbridge-1"}  # of a translated pod
    made = {"name": "gpu", "resourceClaimName": name}
    claims = {} if limits else {"resourceClaims": [entry]}
    statuses = {} if limits else {"resourceClaimStatuses": [made]}
    metadata = {"name": name, "namespace": namespace, "uid": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "creationTimestamp": _STARTED},
        "spec": {"containers": [container], **({"nodeName": node} if node else {}), **claims},
        "status": {"phase": "Running" if node else "Pending", **statuses},
    }


def _waiting(namespace: str, name: str, message: str) -> JSON:
    pod = _pod(namespace, name)
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": message}]
    return pod


def _driver_node(name: str, pool: str, held: int, devices: int = 8) -> Iterator[JSON]:
    yield make_node(name, pool)
    yield _slice(
        name, [_gpu(number, "NVIDIA H100 80GB HBM3", devices) for number in range(devices)]
    )
    for number in range(min(held, devices)):
        namespace = "team-vision" if number % 3 else "team-speech"
        owner = f"train-{name}-{number}"
        yield _claim(namespace, owner, name, f"gpu-{number}")
        yield _pod(namespace, owner, name)


def _shared_node(name: str) -> Iterator[JSON]:
    many = {"allowMultipleAllocations": True}
    devices = [_gpu(number, "NVIDIA A10", 4) | many for number in range(4)]
    yield make_node(name, "a10")
    yield _slice(name, devices)
    for number in range(5):
        owner = f"serve-{number}"
        amount = {"consumedCapacity": {"memory": "8Gi"}}
        yield _claim("team-speech", owner, name, f"gpu-{number % 3}", **amount)
        yield _pod("team-speech", owner, name)


def _partitioned_node(name: str) -> Iterator[JSON]:
    counters = [
        {"name": f"gpu-{number}", "counters": {"memory": {"value": "40Gi"}}} for number in range(2)
    ]
    devices = [
        {"name": f"gpu-{gpu}{part}", "consumesCounters": [
            {"counterSet": f"gpu-{gpu}", "counters": {"memory": {"value": size}}}]}
        for gpu in range(2)
        for part, size in (("", "40Gi"), ("-mig-1", "20Gi"), ("-mig-2", "20Gi"))
    ]  # fmt: skip
    devices[5]["taints"] = [{"key": "example.com/xid-errors", "effect": "NoSchedule"}]
    yield make_node(name, "a100")
    yield _slice(name, [], slices=2, sharedCounters=counters)
    yield _slice(name, devices, slices=2)
    yield _claim("team-vision", "notebook", name, "gpu-0-mig-1")
    yield _pod("team-vision", "notebook", name)


def _plugin_node(name: str, units: int, held: int) -> Iterator[JSON]:
    yield make_node(name, "l4", **{"nvidia.com/gpu": f"{units}"})
    for number in range(held):
        yield _pod("team-legacy", f"web-{name}-{number}", name, {"nvidia.com/gpu": 1})
