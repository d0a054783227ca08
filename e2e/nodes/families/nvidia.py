"""Publishes devices of gpu.nvidia.com as the real driver does, in each of its modes."""

from collections.abc import Iterator
from typing import Any

from e2e.nodes.layout import Device, Layout, Sheet, Wire
from e2e.nodes.machine import Gpu, Machine

DRIVER = "gpu.nvidia.com"
CLASSES = {
    f"{prefix}.nvidia.com": f"device.driver == '{DRIVER}' && "
    f"device.attributes['{DRIVER}'].type == '{kind}'"
    for prefix, kind in (("gpu", "gpu"), ("mig", "mig"), ("vfio.gpu", "vfio"))
}
VERSIONS = {"driverVersion": "580.126.9", "cudaDriverVersion": "13.0.0"}
STATIC = (("3g", 4), ("2g", 0), ("1g", 2), ("1g", 3))
# The capacities of a partition, also those that are 0, and the names of their counters.
ENGINES = {
    "multiprocessors": "multiprocessors",
    "copyEngines": "copy-engines",
    "decoders": "decoders",
    "encoders": "encoders",
    "jpegEngines": "jpeg-engines",
    "ofaEngines": "ofa-engines",
}
_MIG_SHARING = {
    "strategy": str,
    "mpsConfig": {
        "defaultActiveThreadPercentage": int,
        "defaultPinnedDeviceMemoryLimit": str,
        "defaultPerDevicePinnedMemoryLimit": dict,
        "multiUser": bool,
    },
}
_SHARING = _MIG_SHARING | {"timeSlicingConfig": {"interval": str}}
# configuration kind -> the kind of device it is for, and the fields it may have
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "GpuConfig": ("gpu", {"sharing": _SHARING}),
    "MigDeviceConfig": ("mig", {"sharing": _MIG_SHARING}),
    "VfioDeviceConfig": (
        "vfio",
        {"iommu": {"backendPolicy": str, "enableAPIDevice": bool}},
    ),
}
GROUP = "resource.nvidia.com/v1beta1"


def layout(machine: Machine, mode: str = "full") -> Layout:
    """Publish a machine's GPUs.

    `mode`: full | static-mig | dynamic-mig | groups (dynamic MIG, partitions of different size
    exclude each other) | vfio | shares-memory | shares-unlimited | shares-N | links (the number of
    each GPU's partition of two, four and eight linked GPUs) | modules (the module number).
    """
    # A GPU without profiles has no counters.
    if mode in ("dynamic-mig", "groups") and machine.product["mig"]:
        sets = tuple(_counter_set(machine, gpu) for gpu in machine.gpus)
        sheets = [Sheet(counters=sets)]
        sheets += [
            Sheet(tuple(_partitionable(machine, gpu, grouped=mode == "groups")))
            for gpu in machine.gpus
        ]
        return Layout(DRIVER, machine.name, tuple(sheets))
    devices = tuple(device for gpu in machine.gpus for device in _devices(machine, gpu, mode))
    return Layout(DRIVER, machine.name, (Sheet(devices),))


def _devices(machine: Machine, gpu: Gpu, mode: str) -> Iterator[Device]:
    if mode == "static-mig":
        for size, start in STATIC:
            profile = next(name for name in machine.product["mig"] if name.startswith(size))
            yield _partition(machine, gpu, profile, start, static=True)
        return
    wire = _whole(machine, gpu)
    if mode.startswith("shares-"):
        wire |= _shares(machine.product["memory"], mode.removeprefix("shares-"))
    if mode == "links":
        wire["attributes"] |= {f"partition{size}": {"int": gpu.index // size} for size in (2, 4, 8)}
    if mode == "modules":
        wire["attributes"] |= {"gpuModuleID": {"int": gpu.index}}
    yield Device(f"gpu-{gpu.index}", "gpu", gpu.uuid, wire)
    if mode == "vfio":
        yield Device(f"gpu-vfio-{gpu.index}", "vfio", gpu.uuid, _passthrough(machine, gpu))


def _place(gpu: Gpu) -> Wire:
    numa = {"resource.kubernetes.io/numaNode": {"int": gpu.numa}} if gpu.numa >= 0 else {}
    return {
        "resource.kubernetes.io/pciBusID": {"string": gpu.bus},
        "resource.kubernetes.io/pcieRoot": {"string": gpu.root},
        **numa,
    }


def _common(machine: Machine, kind: str) -> Wire:
    product = machine.product
    return {
        "type": {"string": kind},
        "productName": {"string": product["name"]},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": product["architecture"]},
        "cudaComputeCapability": {"version": product["compute"]},
        "addressingMode": {"string": "HMM"},
        **{name: {"version": version} for name, version in VERSIONS.items()},
    }


def _whole(machine: Machine, gpu: Gpu) -> Wire:
    return {
        "attributes": _common(machine, "gpu") | {"uuid": {"string": gpu.uuid}} | _place(gpu),
        "capacity": {"memory": {"value": machine.product["memory"]}},
    }


def _passthrough(machine: Machine, gpu: Gpu) -> Wire:
    return {
        "attributes": {
            "type": {"string": "vfio"},
            "uuid": {"string": gpu.uuid},
            "productName": {"string": machine.product["name"]},
            "vendorID": {"string": "0x10de"},
            "deviceID": {"string": "0x20b0"},
            "iommuFDEnabled": {"bool": True},
            **_place(gpu),
        },
        "capacity": {"addressableMemory": {"value": machine.product["memory"]}},
    }


def _shares(memory: str, flag: str) -> Wire:
    """Consumable shares: `flag` is memory, unlimited, or how many shares a GPU has."""
    default, least = (memory, "1Mi") if flag == "memory" else ("0", "0")
    capacity: Wire = {
        "memory": {
            "value": memory,
            "requestPolicy": {
                "default": default,
                "validRange": {"min": least, "max": memory, "step": "1Mi"},
            },
        }
    }
    if flag.isdigit():
        policy = {"default": "1", "validRange": {"min": "1", "max": flag, "step": "1"}}
        capacity["shares"] = {"value": flag, "requestPolicy": policy}
    return {"allowMultipleAllocations": True, "capacity": capacity}


def _partition(
    machine: Machine, gpu: Gpu, profile: str, start: int, *, static: bool = False
) -> Device:
    data = machine.product["mig"][profile]
    name = f"gpu-{gpu.index}-mig-{profile.replace('.', '')}-{data['id']}-{start}"
    attributes = _common(machine, "mig") | _place(gpu)
    attributes |= {"parentUUID": {"string": gpu.uuid}, "profile": {"string": profile}}
    capacity = _capacities(data)
    if static:
        attributes["uuid"] = {"string": f"MIG-{gpu.uuid.removeprefix('GPU-')}-{start}"}
        slices = range(start, start + data["size"])
        capacity |= {f"memorySlice{number}": {"value": "1"} for number in slices}
    return Device(name, "mig", gpu.uuid, {"attributes": attributes, "capacity": capacity})


def _capacities(data: dict[str, Any]) -> Wire:
    engines = {name: {"value": str(data["engines"].get(name, 0))} for name in ENGINES}
    return {"memory": {"value": data["memory"]}, **engines}


def _largest(machine: Machine) -> dict[str, Any]:
    """Return the largest profile: with dynamic MIG, the whole GPU has its memory and engines."""
    largest: dict[str, Any] = max(machine.product["mig"].values(), key=lambda each: each["size"])
    return largest


def _partitionable(machine: Machine, gpu: Gpu, *, grouped: bool) -> Iterator[Device]:
    """The whole GPU and every possible partition, all drawing on the GPU's counters."""
    counters = _counter_set(machine, gpu)
    draw = {"counterSet": counters["name"], "counters": counters["counters"]}
    whole = _whole(machine, gpu) | {"capacity": _capacities(_largest(machine))}
    yield Device(f"gpu-{gpu.index}", "gpu", gpu.uuid, whole | {"consumesCounters": [draw]})
    for profile, data in machine.product["mig"].items():
        for start in data["starts"]:
            device = _partition(machine, gpu, profile, start)
            draw = {"counterSet": counters["name"], "counters": _draw(data, start)}
            if grouped:
                draw["compatibilityGroups"] = [f"vgpu-{profile.replace('.', '-')}"]
            device.wire["consumesCounters"] = [draw]
            yield device


def _counter_set(machine: Machine, gpu: Gpu) -> Wire:
    return {"name": f"gpu-{gpu.index}-counter-set", "counters": _draw(_largest(machine), 0)}


def _draw(data: dict[str, Any], start: int) -> Wire:
    counters = {ENGINES.get(name, name): value for name, value in _capacities(data).items()}
    slices = range(start, start + data["size"])
    return counters | {f"memory-slice-{number}": {"value": "1"} for number in slices}
