"""Translates Koordinator's joint allocation on published machine layouts, for docs/joint.md.

The machines are data of the e2e drivers. The requests come from the real translation with real
facts, and the devices from the real solver. Koordinator's choice is computed from the machine.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, Final, TypeVar

from cli.simulate import default_allocator
from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.dra.allocation import Allocation
from drawbridge.dra.attributes import NUMA_NODE
from drawbridge.dra.claim import template_reader
from drawbridge.dra.classes import DeviceClass, class_reader
from drawbridge.dra.decode import Reader
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice, slice_reader
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.finding import Severity
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.placing import Placer
from drawbridge.ledger.planner import Planner, PlannerObject
from drawbridge.ledger.pods import pod_reader
from drawbridge.translate.manifests.objects import TranslatedObject, translate_object
from drawbridge.translate.pods import TranslationContext, make_context
from e2e.koordinator.machines import OccupiedMachine
from e2e.koordinator.request import DeviceRequest
from e2e.koordinator.steps import place
from e2e.nodes.families import nics, nvidia
from e2e.nodes.layout import Layout
from e2e.nodes.machine import Machine, machine

T = TypeVar("T")

MAX_GPUS: Final = 8
RELATED: Final = (
    "dgx-a100",
    "hgx-h100",
    "aws-p4d",
    "koordinator-fake-8g4n",
    "koordinator-h800",
)
UNRELATED: Final = ("azure-nd-a100-v4", "oci-gb200")
_CLASSES: Final = {
    "gpu.nvidia.com": 'device.attributes["gpu.nvidia.com"].type == "gpu"',
    "dra.net": 'device.attributes["dra.net"].rdma == true',
}


@dataclass(frozen=True)
class SimulatedCluster:
    """A cluster of one machine."""

    machine: Machine
    context: TranslationContext
    planner: Planner
    cluster: ClusterNodes


@dataclass(frozen=True)
class JointResult:
    """The result for one pod: the GPUs and NICs of each group, or the findings that refuse it."""

    groups: tuple[tuple[int, int], ...] = ()
    findings: tuple[str, ...] = ()
    # The devices of each group on an empty node: GPUs by number and NICs by name.
    devices: tuple[tuple[tuple[int, ...], tuple[str, ...]], ...] = ()

    @property
    def nics(self) -> int:
        """The number of requested NICs."""
        return sum(nics for _, nics in self.groups)


@cache
def make_cluster(shape: str, *, numa: bool = False) -> SimulatedCluster:
    """Make a cluster of one machine; with `numa`, NICs publish their NUMA node as GPUs do."""
    hardware = machine("node-1", shape)
    published = (nvidia.layout(hardware), nics.dranet(hardware))
    slices = tuple(each for layout in published for each in _slices(layout, numa=numa))
    classes = tuple(_class(name, text) for name, text in _CLASSES.items())
    node = Node("node-1")
    planner = Planner(allocator=default_allocator(Configuration()))
    objects: tuple[PlannerObject, ...] = (*slices, *classes, node)
    for obj in objects:
        planner.update(obj)
    counted = gather_facts(FactsInput(slices, classes, (node,))).facts
    return SimulatedCluster(
        hardware, make_context(Configuration(), counted), planner, ClusterNodes(nodes=(node,))
    )


def _slices(layout: Layout, *, numa: bool) -> Iterator[Slice]:
    devices = [device.published() for sheet in layout.sheets for device in sheet.devices]
    if numa:
        devices = [_on_numa(each) for each in devices]
    raw = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": layout.driver},
        "spec": {
            "driver": layout.driver,
            "nodeName": layout.node,
            "pool": {"name": layout.node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }
    yield _read(slice_reader(), raw)


def _read(reader: Reader[T], raw: object) -> T:
    read = reader.read(raw)
    if isinstance(read, tuple):
        raise ValueError(read)  # noqa: TRY004  # the content is wrong, not the type
    return read


def _on_numa(device: dict[str, Any]) -> dict[str, Any]:
    attributes = device["attributes"]
    number = attributes.get(NUMA_NODE) or attributes["numaNode"]
    return {**device, "attributes": {**attributes, NUMA_NODE: number}}


def _class(name: str, expression: str) -> DeviceClass:
    text = f'device.driver == "{name}" && {expression}'
    raw = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": text}}]},
    }
    return _read(class_reader(), raw)


@cache
def translate_joint(shape: str, gpus: int, rdma: int, *, numa: bool = False) -> JointResult:
    """Translate the pod for a machine, and place it there."""
    on = make_cluster(shape, numa=numa)
    asked = DeviceRequest(gpus, rdma, ("gpu", "rdma"), same_pcie=True).pod()
    one = translate_object(asked, "Pod//worker", on.context)
    findings = tuple(
        f"{finding.message} [{finding.code}]"
        for finding in one.findings
        if finding.severity is Severity.ERROR or finding.code == "NeighbourhoodChanged"
    )
    if not one.templates:
        return JointResult(findings=findings)
    spec: Any = one.templates[0]["spec"]
    counts = [each["exactly"]["count"] for each in spec["spec"]["devices"]["requests"]]
    groups = tuple(zip(counts[::2], counts[1::2], strict=True))
    return JointResult(groups, findings, tuple(_placed(asked, one, on)))


def _placed(
    asked: dict[str, Any], one: TranslatedObject, on: SimulatedCluster
) -> Iterator[tuple[tuple[int, ...], tuple[str, ...]]]:
    """Yield the devices that each group gets on the empty machine."""
    templates = [_read(template_reader(), dict(each)) for each in one.templates]
    carried = _read(pod_reader(), apply_edits(asked, one.edits))
    placement = Placer(on.planner, Ledger(), on.cluster, (), templates).place_pod(carried)
    if placement.node is None:
        raise ValueError(f"{on.machine.shape} gives {asked} nothing: {placement.reasons}")
    results = [
        result
        for _, allocation in placement.claims
        for result in (allocation or Allocation()).devices.results
    ]
    names = {f"pci-{nic.bus.replace(':', '-').replace('.', '-')}": nic for nic in on.machine.nics}
    for _, group in groupby(results, lambda each: each.request.partition("-")[2]):
        devices = [each.device for each in group]
        numbers = (int(each.partition("-")[2]) for each in devices if each.startswith("gpu-"))
        nics = (names[each].name for each in devices if each in names)
        yield tuple(sorted(numbers)), tuple(sorted(nics))


def koordinator_groups(shape: str, gpus: int, rdma: int) -> tuple[tuple[int, int], ...] | None:
    """Return the GPUs and NICs that Koordinator takes on each root of an empty machine, or None."""
    hardware = machine("node-1", shape)
    request = DeviceRequest(gpus, rdma, ("gpu", "rdma"), same_pcie=True)
    taken = place(OccupiedMachine(hardware), request)
    if taken is None:
        return None
    gpu_roots = Counter(hardware.gpus[number].root for number in taken.gpus)
    nic_roots = Counter(hardware.nics[number].root for number in taken.nics)
    return tuple((count, nic_roots[root]) for root, count in gpu_roots.items())
