"""Publishes whole GPUs of gpu.intel.com, each bound to one kernel driver."""

from typing import Any

from e2e.nodes.layout import Device, Layout, Sheet, Wire
from e2e.nodes.machine import Gpu, Machine

DRIVER = "gpu.intel.com"
CLASSES = {DRIVER: f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"}
MILLICORES = "1000"
KERNEL_DRIVERS = ("i915", "xe")
# The driver reads no parameters of whole GPUs: any are refused.
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {}


def layout(machine: Machine, mode: str = "i915") -> Layout:
    """Publish a machine's GPUs; `mode` is the kernel driver that they are bound to."""
    if mode not in KERNEL_DRIVERS:
        raise ValueError(f"gpu.intel.com has no mode {mode}")
    devices = tuple(
        Device(_name(machine, gpu), "gpu", gpu.uuid, _wire(machine, gpu, mode))
        for gpu in machine.gpus
    )
    return Layout(DRIVER, machine.name, (Sheet(devices),))


def _name(machine: Machine, gpu: Gpu) -> str:
    address = gpu.bus.replace(":", "-").replace(".", "-")
    return f"{address}-{machine.product['deviceID']}"


def _wire(machine: Machine, gpu: Gpu, kernel: str) -> Wire:
    product = machine.product
    return {
        "attributes": {
            "type": {"string": "gpu"},
            "model": {"string": product["name"]},
            "family": {"string": product["architecture"]},
            "driver": {"string": kernel},
            "pciId": {"string": product["deviceID"]},
            "sriov": {"bool": True},
            "health": {"string": "Healthy"},
            "resource.kubernetes.io/pciBusID": {"string": gpu.bus},
            "resource.kubernetes.io/pcieRoot": {"string": gpu.root},
        },
        "capacity": {
            "memory": {"value": product["memory"]},
            "millicores": {"value": MILLICORES},
        },
    }
