"""The slices, the classes and the claims of a cluster whose nodes have GPUs and NICs, in JSON."""

import json
from typing import Any, Final

from bench._scale import scaled

SLICES: Final = scaled(10_000, 50)
DEVICES, PRODUCTS = 8, 30
GPU, NIC = "gpu.nvidia.com", "dra.net"
Json = dict[str, Any]


def device(node: int, minor: int) -> Json:
    """Shape one GPU as NVIDIA's driver publishes an H100."""
    bus = (0x0F, 0x2D, 0x44, 0x5B, 0x89, 0xA8, 0xC0, 0xD8)[minor % 8]
    return {
        "name": f"gpu-{minor}",
        "attributes": {
            "addressingMode": {"string": "HMM"},
            "architecture": {"string": "Hopper"},
            "brand": {"string": "Nvidia"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "cudaDriverVersion": {"version": "13.0.0"},
            "driverVersion": {"version": "580.95.5"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "resource.kubernetes.io/numaNode": {"int": minor // 4},
            "resource.kubernetes.io/pciBusID": {"string": f"0000:{bus:02x}:00.0"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{bus - 2:02x}"},
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{node:08x}-0000-4000-8000-{minor:012x}"},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
    }


def nic(node: int, minor: int) -> Json:
    """Make the NIC with the PCIe root of the GPU with the same number."""
    root = device(node, minor)["attributes"]["resource.kubernetes.io/pcieRoot"]
    return {
        "name": f"nic-{minor}",
        "attributes": {
            "ifName": {"string": f"eth{minor}"},
            "mac": {"string": f"02:00:{node >> 8:02x}:{node & 255:02x}:00:{minor:02x}"},
            "rdma": {"bool": True},
            "numaNode": {"int": minor // 4},
            "resource.kubernetes.io/pcieRoot": root,
        },
    }


def slice_(node: int) -> Json:
    """Shape one node's slice as the API server lists it, managed fields taken out."""
    name = f"node-{node:05}"
    return {
        "metadata": {
            "name": f"00000-{GPU}-{name}-{node:05x}",
            "generateName": f"00000-{GPU}-{name}-",
            "uid": f"{node:08x}-0000-4000-8000-000000000000",
            "resourceVersion": f"{100_000 + node}",
            "generation": 1,
            "creationTimestamp": "2026-11-20T08:00:00Z",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": name, "uid": f"{node:08x}-1"},
            ],
        },
        "spec": {
            "driver": GPU,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [device(node, minor) for minor in range(DEVICES)],
        },
    }


def slices(node: int) -> tuple[Json, Json]:
    """Make the two slices of a node: GPUs of one of the products, and NICs."""
    gpus = slice_(node)
    for gpu in gpus["spec"]["devices"]:
        gpu["attributes"]["productName"] = {"string": f"NVIDIA P{node % PRODUCTS}"}
    name = gpus["spec"]["nodeName"]
    nics = {
        "metadata": {"name": f"00000-{NIC}-{name}", "resourceVersion": f"{200_000 + node}"},
        "spec": {
            "driver": NIC,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [nic(node, minor) for minor in range(DEVICES)],
        },
    }
    return gpus, nics


def document(count: int) -> bytes:
    """Write the list that a cluster of so many nodes would answer."""
    items = ",".join(json.dumps(slice_(node), separators=(",", ":")) for node in range(count))
    head = '{"kind":"ResourceSliceList","apiVersion":"resource.k8s.io/v1",'
    return f'{head}"metadata":{{"resourceVersion":"300000"}},"items":[{items}]}}'.encode()


def classes() -> list[Json]:
    """Make the class of the GPUs and the class of the NICs."""
    selectors = {name: f'device.driver == "{name}"' for name in (GPU, NIC)}
    selectors[GPU] += f' && device.attributes["{GPU}"].type == "gpu"'
    return [
        {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": text}}]}}
        for name, text in selectors.items()
    ]


def claim(requests: dict[str, tuple[str, int]], name: str = "c", **constraint: str) -> Json:
    """Make a claim: requests by name with class and count, and a constraint on all of them."""
    exact = {
        each: {"deviceClassName": of, "allocationMode": "ExactCount", "count": count}
        for each, (of, count) in requests.items()
    }
    devices = {
        "requests": [{"name": each, "exactly": body} for each, body in exact.items()],
        "constraints": [constraint] * bool(constraint),
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}}
