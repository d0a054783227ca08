"""Generates clusters and pods for the agreement of packages; the same seed gives the same case."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from drawbridge.config.model import Configuration, Decisions
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.gates import VERSIONS, Gates, gates_of_version
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.facts.offers import served_resources
from tests.facts.clusters import device_class, node
from tests.translate.worlds import CLASSES, slices_of_node

SHAPES: Final = {
    "gpu.nvidia.com": ("lab-2g2n", "dgx-a100"),
    "hami-core-gpu.project-hami.io": ("lab-2g2n", "dgx-a100"),
    "dra.net": ("lab-2g2n", "dgx-a100"),
    "gpu.amd.com": ("lab-2amd",),
}
MODES: Final = {"gpu.nvidia.com": ("full", "static-mig", "dynamic-mig", "shares-memory")}
# What the device plugins of a node advertise together.
PLUGINS: Final = (
    {"nvidia.com/gpu": "8"},
    {"nvidia.com/gpu": "80"},
    {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.5gb": "14"},
    {"nvidia.com/gpu.shared": "32"},
    {"rdma/hca": "1000"},
    {"nvidia.com/gpu": "8", "rdma/hca": "1000"},
    {"amd.com/gpu": "8"},
    {"volcano.sh/vgpu-number": "10"},
)
HAMI: Final = {"hami.io/node-nvidia-register": "GPU-1,10,81920,100,NVIDIA,0,true:"}
# Requests of one container, each a legacy dialect's.
REQUESTS: Final = (
    {"nvidia.com/gpu": "1"},
    {"nvidia.com/gpu": "2"},
    {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"},
    {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50", "nvidia.com/gpucores": "30"},
    {"nvidia.com/gpu": "40"},
    {"nvidia.com/mig-1g.5gb": "1"},
    {"nvidia.com/mig-1g.10gb": "1"},
    {"nvidia.com/gpu.shared": "1"},
    {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "2000"},
    {"koordinator.sh/gpu": "50"},
    {"koordinator.sh/gpu": "200", "koordinator.sh/rdma": "100"},
    {"aliyun.com/gpu-mem": "3"},
    {"amd.com/gpu": "1"},
    {"rdma/hca": "1"},
    {"openshift.io/sriov_a": "1"},
    {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1"},
    {"gpu.intel.com/i915": "1"},
    {"vendor.example/thing": "1"},
    {},
)
MAPPED: Final = {
    "gpu.nvidia.com": "nvidia.com/gpu",
    "hami-core-gpu.project-hami.io": "nvidia.com/gpu",
    "mig.nvidia.com": "nvidia.com/mig-1g.5gb",
    "gpu.amd.com": "amd.com/gpu",
    "dra.net": "rdma/hca",
}


@dataclass(frozen=True)
class GeneratedCluster:
    """The objects of a cluster, its gates, and the configuration of Drawbridge."""

    seed: int
    gates: Gates
    configuration: Configuration
    nodes: tuple[Node, ...]
    slices: tuple[Slice, ...]
    classes: tuple[DeviceClass, ...]
    advertised: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def describe(self) -> str:
        """Describe the cluster in one line, for failures."""
        pools = [f"{each.node_name}:{each.driver}" for each in self.slices]
        mapped = {
            device_class.metadata.name: device_class.spec.extended_resource_name or ""
            for device_class in self.classes
        }
        return (
            f"cluster {self.seed}: {self.gates.version} "
            f"extended={self.gates.extended_resource} shares={self.gates.consumable_capacity} "
            f"pools={sorted(set(pools))} plugins={self.advertised} classes={mapped} "
            f"native={self.configuration.decisions.native_extended_names}"
        )


def make_cluster(seed: int) -> GeneratedCluster:
    """Make the cluster of a seed: one to four nodes with plugins, drivers, both or neither."""
    draw = random.Random(f"cluster {seed}")
    decisions = Decisions(
        native_extended_names=draw.choice(("leave", "translate")),  # type: ignore[arg-type]
        allow_loss_of=draw.choice(((), ("isolation",))),  # type: ignore[arg-type]
    )
    configuration = replace(Configuration(), decisions=decisions)
    published: list[Slice] = []
    nodes: list[Node] = []
    advertised: dict[str, frozenset[str]] = {}
    for number in range(draw.randint(1, 4)):
        name = f"n{number}"
        plugin = draw.choice(PLUGINS) if draw.random() < 0.5 else {}
        hami = plugin == {"nvidia.com/gpu": "80"}
        nodes.append(node(name, dict(plugin), annotations=HAMI if hami else {}))
        advertised[name] = frozenset(served_resources(nodes[-1], configuration.legacy))
        for driver in draw.sample(sorted(SHAPES), draw.choice((0, 1, 1, 2))):
            published += _slices(draw, name, driver)
    names = [each for each in CLASSES if draw.random() < 0.85]
    classes = tuple(
        device_class(key, MAPPED.get(key, "") if draw.random() < 0.4 else "", cel=CLASSES[key])
        for key in names
    )
    return GeneratedCluster(
        seed, _gates(draw), configuration, tuple(nodes), tuple(published), classes, advertised
    )


def _slices(draw: random.Random, name: str, driver: str) -> tuple[Slice, ...]:
    shape = draw.choice(SHAPES[driver])
    return slices_of_node(name, shape, driver, draw.choice(MODES.get(driver, ("",))))


def _gates(draw: random.Random) -> Gates:
    """Draw a version, and switch gates that it does not lock."""
    version = draw.choice(VERSIONS)
    overrides = {
        gate: draw.random() < 0.5
        for gate in ("DRAExtendedResource", "DRAConsumableCapacity", "DRAPartitionableDevices")
        if draw.random() < 0.4
    }
    gates = gates_of_version(version, overrides)
    if not isinstance(gates, Gates):
        gates = gates_of_version(version)
    assert isinstance(gates, Gates)
    return gates


def make_pod(seed: int) -> dict[str, Any]:
    """Make the pod of a seed: one to three containers, with requests of several dialects."""
    draw = random.Random(f"pod {seed}")
    containers = [_container(draw, f"c{i}") for i in range(draw.choice((1, 1, 1, 2, 3)))]
    spec: dict[str, Any] = {"containers": containers}
    if draw.random() < 0.2:
        spec["initContainers"] = [_container(draw, "init")]
    metadata: dict[str, Any] = {"name": f"p{seed}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(draw: random.Random, name: str) -> dict[str, Any]:
    limits: dict[str, str] = {}
    for requests in draw.sample(REQUESTS, draw.choice((1, 1, 1, 2))):
        limits |= requests
    return {"name": name, "resources": {"limits": limits}} if limits else {"name": name}
