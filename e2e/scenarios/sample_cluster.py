"""The sample cluster of the documentation, as the rig makes it: `examples/audit` is the source."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from e2e.nodes.machine import Machine, machine, shape_of
from e2e.nodes.plugin import replicas

FOLDER = Path(__file__).parents[2] / "examples" / "audit"
LEGACY = "nvidia.com/gpu"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
PLUGINS = "/device-plugins"
SYSTEM = "kube-system"
JSON = dict[str, Any]


@dataclass(frozen=True)
class SampleNode:
    """A node: its machine, its metadata, the units of its plugin, and its drivers."""

    name: str
    shape: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    units: int
    cordoned: bool
    drivers: tuple[str, ...]

    def unit_names(self) -> tuple[str, ...]:
        """Return the units that the plugin offers: GPUs, or several shares of each."""
        uuids = tuple(each.uuid for each in self.machine.gpus)
        return replicas(uuids, self.units // len(uuids)) if self.units > len(uuids) else uuids

    @property
    def machine(self) -> Machine:
        """The hardware."""
        return machine(self.name, self.shape)


class Sample:
    """The objects of the files, by what they are for."""

    def __init__(self, objects: Iterable[JSON]) -> None:
        self.objects: list[JSON] = [*objects]

    def of(self, *kinds: str) -> list[JSON]:
        """Return the objects of these kinds."""
        return [each for each in self.objects if each["kind"] in kinds]

    @cached_property
    def nodes(self) -> tuple[SampleNode, ...]:
        """The nodes."""
        return tuple(map(self._node, self.of("Node")))

    def _node(self, node: JSON) -> SampleNode:
        metadata, name = node["metadata"], node["metadata"]["name"]
        slices = [each["spec"] for each in self.of("ResourceSlice")]
        drivers = tuple(each["driver"] for each in slices if each["nodeName"] == name)
        return SampleNode(
            name,
            shape_of(metadata["labels"][INSTANCE_TYPE]),
            metadata["labels"],
            metadata.get("annotations", {}),
            int(node["status"]["allocatable"].get(LEGACY, 0)),
            node.get("spec", {}).get("unschedulable", False),
            drivers,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(each["metadata"]["name"] for each in self.of("Node"))

    @property
    def daemons(self) -> list[JSON]:
        """The DaemonSets of plugins and drivers."""
        return [each for each in self.of("DaemonSet") if each["metadata"]["namespace"] == SYSTEM]

    @cached_property
    def workloads(self) -> Mapping[tuple[str, str], JSON]:
        """The owners of pods, and the pods without an owner, by namespace and name."""
        daemons = [daemons for daemons in self.of("DaemonSet") if daemons not in self.daemons]
        owners = [*self.of("Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob"), *daemons]
        bare = [each for each in self.of("Pod") if "ownerReferences" not in each["metadata"]]
        return {
            (each["metadata"]["namespace"], each["metadata"]["name"]): each
            for each in (*owners, *bare)
        }

    def running(self) -> Iterator[JSON]:
        """Yield the pods with devices that run."""
        for pod in self.of("Pod"):
            if pod["metadata"]["namespace"] != SYSTEM and pod["status"]["phase"] == "Running":
                yield pod

    def workload_of(self, pod: JSON) -> tuple[str, str]:
        """Return the namespace and the name of the workload that a pod belongs to."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        return next(key for key in self.workloads if key[0] == namespace and _starts(name, key[1]))


def pod_spec_of(workload: JSON) -> JSON:
    """Return the spec of the pods of a workload, without the node where the sample has them."""
    spec = workload["spec"]
    while "containers" not in spec:
        spec = spec.get("jobTemplate", spec.get("template"))["spec"]
    return {key: value for key, value in spec.items() if key != "nodeName"}


def is_plugin(daemons: JSON) -> bool:
    """Whether a DaemonSet is a device plugin: it mounts the folder of the kubelet."""
    volumes = daemons["spec"]["template"]["spec"].get("volumes", ())
    return any(each["hostPath"]["path"].endswith(PLUGINS) for each in volumes)


def _starts(name: str, workload: str) -> bool:
    return name == workload or name.startswith(f"{workload}-")


def read_sample(folder: Path = FOLDER) -> Sample:
    """Read the objects of a folder."""
    texts = (file.read_text() for file in sorted(folder.glob("*.yaml")))
    return Sample(each for text in texts for each in yaml.load_all(text, yaml.CSafeLoader))


SAMPLE = read_sample()
