"""Builds clusters for the tests of facts, from short descriptions or of any size."""

from collections.abc import Iterator, Sequence

from drawbridge.dra.claim import ClaimMetadata, Selector
from drawbridge.dra.classes import ClassSpec, DeviceClass
from drawbridge.dra.device import Attribute, Capacity, CELExpression, Device
from drawbridge.dra.nodes import Node, node_reader
from drawbridge.dra.quantity import parse
from drawbridge.dra.slices import Slice
from drawbridge.facts.gather import FactsInput

PCIE = "resource.kubernetes.io/pcieRoot"
NUMA = "resource.kubernetes.io/numaNode"


def device_class(
    name: str, extended: str = "", created: str = "", cel: str = "true"
) -> DeviceClass:
    spec = ClassSpec((Selector(CELExpression(cel)),), extended_resource_name=extended or None)
    metadata = ClaimMetadata(name, creation_timestamp=created or None)
    return DeviceClass(metadata=metadata, spec=spec)


def node(
    name: str,
    allocatable: dict[str, object],
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    *,
    ready: bool = True,
    kubelet: str = "",
) -> Node:
    raw = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
        "status": {
            "allocatable": allocatable,
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": "True" if ready else "Unknown"},
            ],
            "nodeInfo": {"kubeletVersion": kubelet},
        },
    }
    read = node_reader().read(raw)
    assert isinstance(read, Node)
    return read


def gpu(
    name: str, product: str = "NVIDIA L4", memory: str = "23034Mi", **more: Attribute
) -> Device:
    attributes = {"type": Attribute("gpu"), "productName": Attribute(product), **more}
    return Device(name, attributes, {"memory": Capacity(parse(memory))})


def slice_of(driver: str, node_name: str, devices: Sequence[Device]) -> Slice:
    return Slice(
        f"{driver}-{node_name}",
        driver,
        node_name,
        1,
        1,
        node_name=node_name,
        devices=tuple(devices),
    )


def placed(number: int, kind: str, root: str = "", numa: int | None = None) -> Device:
    """A device of a kind on a PCIe root and a NUMA node."""
    attributes = {}
    if root:
        attributes[PCIE] = Attribute(root)
    if numa is not None:
        attributes[NUMA] = Attribute(integer=numa)
    if kind in ("nic", "plain"):
        attributes["rdma"] = Attribute(boolean=kind == "nic")
    else:
        attributes["type"] = Attribute(kind)
    return Device(f"{kind}-{number}", attributes)


def machine(name: str, words: Sequence[Sequence[object]]) -> Iterator[Slice]:
    """The slices of a node whose devices are `[kind, root, numa]`."""
    devices = [placed(i, *each) for i, each in enumerate(words)]  # type: ignore[arg-type]  # from a table
    nics = [each for each in devices if each.name.startswith(("nic", "plain"))]
    yield slice_of("gpu.nvidia.com", name, [each for each in devices if each not in nics])
    yield slice_of("dra.net", name, nics)


def fleet(nodes: int, devices_each: int = 8) -> FactsInput:
    """A fleet of hosts with so many GPUs and NICs each, of four products."""
    products = ("NVIDIA L4", "NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3", "NVIDIA B200")
    slices: list[Slice] = []
    for i in range(nodes):
        name = f"node-{i}"
        gpus = [
            gpu(
                f"gpu-{j}",
                products[i % 4],
                "23034Mi",
                uuid=Attribute(f"GPU-{i}-{j}"),
                **{PCIE: Attribute(f"pci0000:{j}")},
            )
            for j in range(devices_each)
        ]
        nics = [placed(j, "nic", f"pci0000:{j}") for j in range(devices_each)]
        slices += (slice_of("gpu.nvidia.com", name, gpus), slice_of("dra.net", name, nics))
    hosts = tuple(
        Node(f"node-{i}", allocatable={"nvidia.com/gpu": parse("8")} if i % 2 else {})
        for i in range(nodes)
    )
    return FactsInput(tuple(slices), (device_class("gpu.nvidia.com", "nvidia.com/gpu"),), hosts)
