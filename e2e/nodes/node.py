"""Builds Node objects with the labels of clouds and of node feature discovery."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from e2e.nodes.machine import Machine

READY = {
    "type": "Ready",
    "status": "True",
    "reason": "KubeletReady",
    "message": "simulated",
    "lastHeartbeatTime": "2026-01-01T00:00:00Z",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
ALLOCATABLE = {"cpu": "96", "memory": "1100Gi", "pods": "250", "ephemeral-storage": "1Ti"}


def node(
    machine: Machine,
    labels: Mapping[str, str] | None = None,
    extended: Mapping[str, int] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """Return the Node of a machine: Ready, with what plugins advertise in `extended`."""
    resources = ALLOCATABLE | {name: str(count) for name, count in (extended or {}).items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": machine.name,
            "labels": _cloud(machine) | _discovery(machine) | dict(labels or {}),
        },
        "spec": {"providerID": f"rig://{machine.name}", "taints": list(taints)},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [READY],
            "addresses": [{"type": "Hostname", "address": machine.name}],
            "nodeInfo": _info(),
        },
    }


def _info() -> dict[str, Any]:
    names = "machineID systemUUID bootID kernelVersion osImage containerRuntimeVersion"
    return {
        **dict.fromkeys(names.split(), "simulated"),
        "kubeletVersion": "v1.36.3",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def _cloud(machine: Machine) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": machine.kind,
        "topology.kubernetes.io/region": "rig-1",
        "topology.kubernetes.io/zone": "rig-1a",
    }


def _discovery(machine: Machine) -> dict[str, str]:
    """Labels of the vendor's discovery; a label takes few characters, so names lose some."""
    product = machine.product
    if not product:
        return {}
    name = re.sub(r"[^A-Za-z0-9-_. ]", "", product["name"]).strip().replace(" ", "-")
    if product["vendor"] == "intel":
        return _intel(machine)
    return _amd(product, name) if product["vendor"] == "amd" else _nvidia(machine, name)


def _amd(product: dict[str, Any], name: str) -> dict[str, str]:
    return {
        "amd.com/gpu.product-name": name,
        "amd.com/gpu.family": product["architecture"],
        "amd.com/gpu.vram": product["labelMemory"],
        "amd.com/gpu.cu-count": str(product["computeUnits"]),
        "amd.com/gpu.simd-count": str(product["computeUnits"] * 4),
        "amd.com/gpu.device-id": product["deviceID"].removeprefix("0x"),
    }


def _intel(machine: Machine) -> dict[str, str]:
    product = machine.product
    identity = product["deviceID"].removeprefix("0x")
    return {
        "gpu.intel.com/product": product["name"].removeprefix("Data Center GPU ").replace(" ", "_"),
        "gpu.intel.com/family": product["architecture"].removeprefix("Data Center ") + "_Series",
        "gpu.intel.com/device.count": str(len(machine.gpus)),
        f"gpu.intel.com/device-id.0380-{identity}.present": "true",
        f"gpu.intel.com/device-id.0380-{identity}.count": str(len(machine.gpus)),
    }


def _nvidia(machine: Machine, name: str) -> dict[str, str]:
    product = machine.product
    major, minor, _ = product["compute"].split(".")
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": name,
        "nvidia.com/gpu.memory": product["labelMemory"],
        "nvidia.com/gpu.count": str(len(machine.gpus)),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/gpu.family": product["architecture"].lower().replace(" ", "-"),
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": minor,
        "nvidia.com/gpu.machine": machine.kind,
        "nvidia.com/cuda.driver-version.full": "580.126.09",
        "nvidia.com/cuda.driver-version.major": "580",
        "nvidia.com/mig.capable": str(bool(product["mig"])).lower(),
        "nvidia.com/mig.strategy": "none",
        "nvidia.com/mps.capable": "false",
    }
