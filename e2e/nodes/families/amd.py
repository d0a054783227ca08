"""Publishes devices of gpu.amd.com: whole accelerators, or the partitions of a split card."""

from collections.abc import Iterator
from typing import Any

from e2e.nodes.layout import Device, Layout, Sheet, Wire
from e2e.nodes.machine import Gpu, Machine

DRIVER = "gpu.amd.com"
CLASSES = {DRIVER: f"device.driver == '{DRIVER}'"}
PARTS = 8
PARTITIONED = ("cpx_nps1", "cpx_nps4")
GROUP = "gpu.resource.amd.com/v1alpha1"
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {"GpuConfig": ("", {"sharing": {"strategy": str}})}


def layout(machine: Machine, mode: str = "full") -> Layout:
    """Publish a machine's accelerators.

    `mode`: full | cpx_nps1 | cpx_nps4 (eight partitions a card).
    """
    devices = tuple(device for gpu in machine.gpus for device in _devices(machine, gpu, mode))
    return Layout(DRIVER, machine.name, (Sheet(devices),))


def _devices(machine: Machine, gpu: Gpu, mode: str) -> Iterator[Device]:
    parts = PARTS if mode in PARTITIONED else 1
    for part in range(parts):
        card = gpu.index * parts + part
        name = f"gpu-{card}-{128 + card}"
        profile = mode if parts > 1 else "spx_nps1"
        yield Device(name, _kind(parts), gpu.uuid, _wire(machine, gpu, profile, card, parts))


def _kind(parts: int) -> str:
    return "amdgpu-partition" if parts > 1 else "amdgpu"


def _wire(machine: Machine, gpu: Gpu, profile: str, card: int, parts: int) -> Wire:  # a row
    product = machine.product
    units = product["computeUnits"] // parts
    memory = int(product["memory"].removesuffix("Mi")) // parts
    return {
        "attributes": {
            "type": {"string": _kind(parts)},
            "pciAddr": {"string": gpu.bus},
            "cardIndex": {"int": card},
            "renderIndex": {"int": 128 + card},
            "deviceID": {"string": product["deviceID"]},
            "family": {"string": product["architecture"]},
            "productName": {"string": product["name"]},
            "driverVersion": {"version": "6.12.12"},
            "driverSrcVersion": {"string": "9D04EC9FEB8CCEB1D1B2A14"},
            "partitionProfile": {"string": profile},
            "resource.kubernetes.io/pcieRoot": {"string": gpu.root},
        },
        "capacity": {
            "memory": {"value": f"{memory}Mi"},
            "computeUnits": {"value": str(units)},
            "simdUnits": {"value": str(units * 4)},
        },
    }
