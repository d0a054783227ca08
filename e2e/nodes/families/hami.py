"""Publishes whole GPUs of hami-core-gpu.project-hami.io, shared by cores and memory.

HAMi sets its limits per claim and device, so a claim with two shares of one device loses one of its
limits. The checks detect that.
"""

from e2e.nodes.layout import Device, Layout, Sheet, Wire
from e2e.nodes.machine import Gpu, Machine

DRIVER = "hami-core-gpu.project-hami.io"
CLASSES = {DRIVER: f"device.driver == '{DRIVER}'"}
CORES = {"default": "100", "validRange": {"min": "0", "max": "100", "step": "1"}}


def layout(machine: Machine, mode: str = "") -> Layout:
    """Publish a machine's GPUs; there is one mode."""
    if mode:
        raise ValueError(f"hami-core has no mode {mode}")
    devices = tuple(
        Device(f"hami-gpu-{gpu.index}", "hami-gpu", gpu.uuid, _wire(machine, gpu))
        for gpu in machine.gpus
    )
    return Layout(DRIVER, machine.name, (Sheet(devices),))


def _wire(machine: Machine, gpu: Gpu) -> Wire:
    memory = machine.product["memory"]
    valid = {"min": "1Mi", "max": memory, "step": "1Mi"}
    return {
        "allowMultipleAllocations": True,
        "attributes": {
            "type": {"string": "hami-gpu"},
            "uuid": {"string": gpu.uuid},
            "minor": {"int": gpu.index},
            "productName": {"string": machine.product["name"]},
            "architecture": {"string": machine.product["architecture"]},
            "pcieRoot": {"string": gpu.root},
            "pcieBusID": {"string": gpu.bus},
        },
        "capacity": {
            "cores": {"value": "100", "requestPolicy": CORES},
            "memory": {
                "value": memory,
                "requestPolicy": {"default": memory, "validRange": valid},
            },
        },
    }
