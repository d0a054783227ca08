"""What the drivers of a machine publish, and which published devices are in use.

GPUs belong to one driver. NICs belong to a driver of ports, or to a driver of virtual functions.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from e2e.koordinator.machines import ChosenHardware, OccupiedMachine
from e2e.nodes.families import nics, nvidia
from e2e.nodes.layout import Layout

JSON = dict[str, Any]
API = "resource.k8s.io/v1"
DRIVER = nvidia.DRIVER
MODULE = f"{DRIVER}/gpuModuleID"
CLASSES = {
    nvidia.DRIVER: f'device.attributes["{nvidia.DRIVER}"].type == "gpu"',
    nics.DRANET: f'device.attributes["{nics.DRANET}"].rdma == true',
    nics.SRIOV: "true",
}


def _layouts(machine: OccupiedMachine) -> tuple[Layout, Layout]:
    ports = nics.dranet(machine.hardware, "numa" if machine.numa else "")
    of_nics = nics.sriov(machine.hardware) if machine.functions else ports
    mode = "modules" if machine.configured_partitions else "links"
    return nvidia.layout(machine.hardware, mode if machine.partitions else "full"), of_nics


def slices(machine: OccupiedMachine) -> Iterator[JSON]:
    """Yield the slices of both drivers."""
    for layout in _layouts(machine):
        yield {
            "apiVersion": API,
            "kind": "ResourceSlice",
            "metadata": {"name": layout.driver},
            "spec": {
                "driver": layout.driver,
                "nodeName": layout.node,
                "pool": {"name": layout.node, "generation": 1, "resourceSliceCount": 1},
                "devices": [each.published() for each in layout.devices.values()],
            },
        }


def classes(machine: OccupiedMachine) -> Iterator[JSON]:
    """Yield the class of each driver."""
    for layout in _layouts(machine):
        text = f'device.driver == "{layout.driver}" && {CLASSES[layout.driver]}'
        yield {
            "apiVersion": API,
            "kind": "DeviceClass",
            "metadata": {"name": layout.driver},
            "spec": {"selectors": [{"cel": {"expression": text}}]},
        }


def held_claims(machine: OccupiedMachine) -> Iterator[JSON]:
    """Yield the claims that have the devices in use."""
    gpus, of_nics = _layouts(machine)
    used = [(gpus, f"gpu-{index}") for index in sorted(machine.used_gpus)]
    used += [(of_nics, name) for name in _used_nics(machine)]
    for number, (layout, device) in enumerate(used):
        request = {"name": "held", "exactly": {"deviceClassName": layout.driver}}
        result = {"driver": layout.driver, "pool": layout.node, "device": device, "request": "held"}
        yield {
            "metadata": {"name": f"held-{number}", "namespace": "default"},
            "spec": {"devices": {"requests": [request]}},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }


def _used_nics(machine: OccupiedMachine) -> Iterator[str]:
    """Yield the devices of the NICs in use, and of the functions in use."""
    for number, names in enumerate(_devices_of_nics(machine)):
        in_use = machine.used_functions.count(number)
        yield from names if number in machine.used_nics else names[:in_use]


def _devices_of_nics(machine: OccupiedMachine) -> list[list[str]]:
    """Return the names of the devices of each NIC: itself, or its functions."""
    _, layout = _layouts(machine)
    address = "pfPciAddress" if machine.functions else "pciAddress"
    names: dict[str, list[str]] = {nic.bus: [] for nic in machine.hardware.nics}
    for device in layout.devices.values():
        names[device.wire["attributes"][address]["string"]].append(device.name)
    return list(names.values())


def find_hardware(machine: OccupiedMachine, devices: Sequence[str]) -> ChosenHardware:
    """Return the hardware of allocated devices; a NIC once for each of its functions."""
    owner = {
        name: number for number, names in enumerate(_devices_of_nics(machine)) for name in names
    }
    gpus = sorted(int(each.removeprefix("gpu-")) for each in devices if each.startswith("gpu-"))
    taken = sorted(owner[each] for each in devices if not each.startswith("gpu-"))
    return ChosenHardware(tuple(gpus), tuple(taken))
