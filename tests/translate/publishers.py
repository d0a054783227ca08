"""Nodes with GPUs, the labels that real publishers write on them, and the devices of their drivers.

Written from the publishers' documentation and independent of the translation: GPU feature
discovery 0.19.3, the GPU Operator, Node Feature Discovery, AMD's labeller, GKE, EKS with Karpenter,
AKS, CoreWeave, Koordinator.
"""

import random
from typing import Any, Final, NamedTuple

from drawbridge.dra.slices import Slice, read_slice
from tests.tables import YamlValue

OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


class Model(NamedTuple):
    """A GPU: its product name, MiB of memory (0: that of the host), family and capability."""

    vendor: str
    product: str
    memory: int
    family: str
    capability: str
    fabric: bool = False


MODELS: Final = (
    Model("nvidia", "NVIDIA A100-SXM4-40GB", 40960, "Ampere", "8.0"),
    Model("nvidia", "NVIDIA A100-SXM4-80GB", 81920, "Ampere", "8.0"),
    Model("nvidia", "NVIDIA A10", 23028, "Ampere", "8.6"),
    Model("nvidia", "NVIDIA H100 80GB HBM3", 81559, "Hopper", "9.0"),
    Model("nvidia", "NVIDIA GB200", 189471, "Blackwell", "10.0", fabric=True),
    Model("nvidia", "NVIDIA L4", 23034, "Ada Lovelace", "8.9"),
    Model("nvidia", "NVIDIA L40S", 46068, "Ada Lovelace", "8.9"),
    Model("nvidia", "Tesla T4", 15360, "Turing", "7.5"),
    Model("nvidia", "Tesla V100-SXM2-32GB", 32768, "Volta", "7.0"),
    Model("nvidia", "NVIDIA GB10", 0, "Blackwell", "12.1"),
    Model("amd", "AMD_Instinct_MI300X_OAM", 196592, "AI", ""),
    Model("amd", "AMD_Instinct_MI210", 65520, "AI", ""),
)
CLOUDS: Final = ("gke", "eks", "aks", "coreweave", "bare")


class Machine(NamedTuple):
    """A node with equal GPUs."""

    name: str
    model: Model
    count: int
    cloud: str
    driver: str
    replicas: int
    mig: str  # the strategy; empty: none is set

    @property
    def labels(self) -> dict[str, str]:
        """Every label of the node while the device plugin runs."""
        return self.lasting_labels | self.plugin_labels

    @property
    def plugin_labels(self) -> dict[str, str]:
        """The labels that go with the device plugin."""
        return _nvidia(self) if self.model.vendor == "nvidia" else _amd(self)

    @property
    def lasting_labels(self) -> dict[str, str]:
        """The labels of the cloud, of the kubelet and of Node Feature Discovery."""
        vendor = {"nvidia": "10de", "amd": "1002"}[self.model.vendor]
        short = self.model.product.removeprefix("NVIDIA ").split("-")[0].lower()
        own: dict[str, dict[str, str]] = {
            "gke": {"cloud.google.com/gke-accelerator": f"nvidia-{short.replace(' ', '-')}"},
            "eks": {
                "karpenter.k8s.aws/instance-gpu-name": short,
                "karpenter.k8s.aws/instance-gpu-count": str(self.count),
                "k8s.amazonaws.com/accelerator": short,
            },
            "aks": {"kubernetes.azure.com/accelerator": self.model.vendor},
            "coreweave": {"gpu.nvidia.com/model": short.upper(), "gpu.nvidia.com/class": short},
        }
        return own.get(self.cloud, {}) | {
            "kubernetes.io/hostname": self.name,
            f"feature.node.kubernetes.io/pci-{vendor}.present": "true",
            "node.kubernetes.io/instance-type": f"{self.cloud}.{self.count}",
        }

    @property
    def slice(self) -> Slice:
        """The slice of the node's driver."""
        nvidia = self.model.vendor == "nvidia"
        driver = "gpu.nvidia.com" if nvidia else "gpu.amd.com"
        read = read_slice(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": f"{self.name}-gpus"},
                "spec": {
                    "driver": driver,
                    "nodeName": self.name,
                    "pool": {"name": self.name, "generation": 1, "resourceSliceCount": 1},
                    "devices": [_device(self, number) for number in range(self.count)],
                },
            }
        )
        assert isinstance(read, Slice), read
        return read


def _device(machine: Machine, number: int) -> dict[str, Any]:
    model = machine.model
    attributes: dict[str, Any] = {
        "productName": {"string": model.product},
        "uuid": {"string": f"GPU-{machine.name}-{number}"},
        "driverVersion": {"version": machine.driver},
    }
    if model.vendor == "nvidia":
        attributes |= {
            "type": {"string": "gpu"},
            "architecture": {"string": model.family},
            "cudaComputeCapability": {"version": f"{model.capability}.0"},
            "cudaDriverVersion": {"version": "13.0.0"},
        }
    else:
        attributes |= {"type": {"string": "amdgpu"}, "family": {"string": model.family}}
    memory = {"memory": {"value": f"{model.memory}Mi"}} if model.memory else {}
    return {"name": f"gpu-{number}", "attributes": attributes} | (
        {"capacity": memory} if memory else {}
    )


def _nvidia(machine: Machine) -> dict[str, str]:
    model = machine.model
    major, minor = model.capability.split(".")
    release, patch, *_ = machine.driver.split(".")
    labels = {
        "gpu.product": model.product.replace(" ", "-"),
        "gpu.count": str(machine.count),
        "gpu.replicas": str(machine.replicas),
        "gpu.sharing-strategy": "none",
        "gpu.family": model.family.lower().replace(" ", "-"),
        "gpu.compute.major": major,
        "gpu.compute.minor": minor,
        "gpu.mode": "compute",
        "gpu.present": "true",
        "gpu.deploy.driver": "true",
        "cuda.driver.major": release,
        "cuda.driver.minor": patch,
        "cuda.driver-version.major": release,
        "cuda.driver-version.minor": patch,
        "cuda.driver-version.full": machine.driver,
        "cuda.runtime.major": "13",
        "cuda.runtime.minor": "0",
        "cuda.runtime-version.major": "13",
        "cuda.runtime-version.minor": "0",
        "cuda.runtime-version.full": "13.0",
        "mig.capable": str(major in {"8", "9", "10"}).lower(),
        "mps.capable": "false",
        "vgpu.present": "false",
    }
    if model.memory:
        labels["gpu.memory"] = str(model.memory)
    if machine.cloud == "bare":
        labels["gpu.machine"] = f"Machine-{machine.count}"
    if model.fabric:
        labels["gpu.clique"] = f"11111111-2222.{len(machine.name) % 2}"
    if machine.mig:
        labels |= {"mig.strategy": machine.mig, "mig.config": "all-disabled"}
    return {f"nvidia.com/{key}": value for key, value in labels.items()} | {
        "node.koordinator.sh/gpu-model": model.product.replace(" ", "-"),
    }


def _amd(machine: Machine) -> dict[str, str]:
    """The labeller writes what it is started with; older releases have a domain of their own."""
    labels = {
        "amd.com/gpu.product-name": machine.model.product,
        "amd.com/gpu.family": machine.model.family,
        "amd.com/gpu.vram": f"{machine.model.memory // 1024}G",
        "amd.com/gpu.device-id": "74a1",
        "beta.amd.com/gpu.family.AI": str(machine.count),
    }
    if "MI300X" in machine.model.product:
        labels["amd.com/gpu.compute-memory-partition"] = "spx_nps1"
    return labels if machine.cloud != "aks" else dict(list(labels.items())[:2])


def draw_cluster(random_: random.Random) -> list[Machine]:
    """Draw the nodes of a cluster."""
    return [
        Machine(
            f"n{number}",
            random_.choice(MODELS),
            random_.choice((1, 2, 4, 8)),
            random_.choice(CLOUDS),
            random_.choice(("535.104.5", "550.90.7", "580.65.6")),
            random_.choice((1, 1, 0)),
            random_.choice(("", "", "single", "mixed")),
        )
        for number in range(random_.randint(2, 7))
    ]


# Keys that some publisher writes, but on no node of these clusters.
RARE: Final = (
    "nvidia.com/mig-1g.5gb.count",
    "nvidia.com/gpu.slices.gi",
    "nvidia.com/vgpu.host-driver-version",
    "nvidia.com/gpu-driver-upgrade-state",
    "nvidia.com/cc.mode.state",
    "gpu.intel.com/product",
    "gpu.intel.com/device-id.0380-56c0.present",
    "habana.ai/gaudi.present",
    "accelerator-type",
    "huawei.com/npu.chip.name",
)


def draw_pod(random_: random.Random, nodes: list[Machine]) -> YamlValue:
    """Draw a pod that selects nodes by one to three terms."""
    values_by_key: dict[str, set[str]] = {key: {"1"} for key in RARE}
    for node in nodes:
        for key, value in node.labels.items():
            values_by_key.setdefault(key, set()).add(value)
    vendor = random_.choice(["nvidia"] * 4 + ["amd"])
    own = sorted(key for key in values_by_key if vendor in key)
    keys = own * 3 + sorted(values_by_key)
    spec: YamlValue = {}
    if random_.random() < 0.4:
        chosen = random_.sample(keys, random_.randint(1, 2))
        spec["nodeSelector"] = {key: _value(random_, values_by_key[key]) for key in chosen}
    if "nodeSelector" not in spec or random_.random() < 0.3:
        terms = [
            {
                "matchExpressions": [
                    _expression(random_, values_by_key, keys) for _ in range(random_.randint(1, 3))
                ]
            }
            for _ in range(random_.choice((1, 1, 1, 2)))
        ]
        required = {"nodeSelectorTerms": terms}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        spec["affinity"] = {"nodeAffinity": affinity}
    limits = {f"{vendor}.com/gpu": random_.choice((1, 1, 2, 4))}
    return {"spec": {**spec, "containers": [{"name": "main", "resources": {"limits": limits}}]}}


def _expression(
    random_: random.Random, values_by_key: dict[str, set[str]], keys: list[str]
) -> YamlValue:
    key, operator = random_.choice(keys), random_.choice(OPERATORS)
    if operator in {"Exists", "DoesNotExist"}:
        return {"key": key, "operator": operator}
    number = 1 if operator in {"Gt", "Lt"} else random_.randint(1, 3)
    values = [_value(random_, values_by_key[key]) for _ in range(number)]
    return {"key": key, "operator": operator, "values": values}


def _value(random_: random.Random, values: set[str]) -> str:
    """A value that a node has, or one that looks like it."""
    value = random_.choice(sorted(values))
    other = random_.random()
    if value.isdecimal() and other < 0.3:
        return random_.choice((str(int(value) - 1), str(int(value) + 1), f"0{value}", "1", "x"))
    if other < 0.1:
        return random_.choice((value.upper(), value.lower(), value.removeprefix("NVIDIA-"), "none"))
    return value
