"""What the played cluster knows: nodes, pods, owners, budgets and quotas, as objects say."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
GPU, MODE, DEVICES = "nvidia.com/gpu", "drawbridge.dev/translate", "drawbridge.dev/devices"
# The class of what a driver publishes.
CLASSES = {"gpu": "gpu.nvidia.com", "share": "hami-core-gpu.project-hami.io"}


def class_of(kind: str) -> str:
    """Return the class of devices of a kind."""
    return "mig.nvidia.com" if kind.startswith("mig") else CLASSES[kind]


@dataclass
class Machine:
    """A node. `devices` is what a driver would publish, by class; None if none can run there."""

    name: str
    labels: dict[str, str]
    notes: dict[str, str]
    taints: list[Json]
    units: dict[str, int]
    devices: dict[str, int] | None
    plugins: set[str]
    published: dict[str, int] = field(default_factory=dict)
    cordoned: bool = False
    ready: bool = True
    amounts: dict[str, int] = field(default_factory=dict)  # milli-CPU and pods
    had_units: dict[str, int] = field(default_factory=dict)
    had_plugins: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Remember what comes back when the plugin does."""
        self.had_units, self.had_plugins = dict(self.units), set(self.plugins)


@dataclass
class Life:
    """A pod: who owns it, what it asks, and with what it runs."""

    space: str
    owner: str
    labels: dict[str, str]
    spec: Json
    limits: Mapping[str, int]
    node: str = ""
    claims: bool = False
    served: str = ""  # plugin or driver
    tied: str = ""  # the node of a DaemonSet's pod
    static: bool = False
    ends: bool = False  # and something holds it
    opted_out: bool = False
    original: Json = field(default_factory=dict)
    revision: int = 0

    @property
    def full_owner(self) -> str:
        """The owner with its namespace."""
        return f"{self.space}/{self.owner}"

    @property
    def cpu(self) -> int:
        """The CPU that it asks for, in thousandths."""
        asked = [
            e.get("resources", {}).get("requests", {}).get("cpu") for e in self.spec["containers"]
        ]
        return sum(_milli(each) for each in asked if each)


@dataclass
class Answer:
    """What admission says of a workload, as the audit has it."""

    fate: str
    devices: Mapping[str, float]


def _milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else 1_000 * int(text)


def count_limits(spec: Json) -> dict[str, int]:
    """Return the device resources that containers use at once."""
    main, start = Counter[str](), Counter[str]()
    for part in ("containers", "initContainers"):
        for container in spec.get(part, ()):
            limits = {
                k: int(n)
                for k, n in container.get("resources", {}).get("limits", {}).items()
                if "/" in k
            }
            if part == "containers" or container.get("restartPolicy") == "Always":
                main.update(limits)
            else:
                start |= Counter(limits)
    return dict(main | start)


def find_owner(pod: Json) -> str:
    """Return the owner of a pod as `Kind/name`: the Deployment of a ReplicaSet."""
    metadata = pod["metadata"]
    for reference in metadata.get("ownerReferences", ()):
        name, hashed = reference["name"], metadata["labels"].get("pod-template-hash")
        if reference["kind"] == "ReplicaSet" and hashed:
            return f"Deployment/{name.removesuffix(f'-{hashed}')}"
        if reference["kind"] != "Node":
            return f"{reference['kind']}/{name}"
    return f"Pod/{metadata['name']}"


def read_pod(pod: Json) -> Life | None:
    """Read a pod; None if it has finished."""
    metadata, spec = pod["metadata"], pod["spec"]
    if pod["status"]["phase"] in ("Succeeded", "Failed"):
        return None
    owner, node = find_owner(pod), spec.get("nodeName", "")
    life = Life(
        metadata["namespace"],
        owner,
        metadata.get("labels", {}),
        {key: each for key, each in spec.items() if key != "nodeName"},
        count_limits(spec),
        node,
        tied=node if owner.startswith("DaemonSet/") else "",
        static="kubernetes.io/config.mirror" in metadata.get("annotations", {}),
        ends="deletionTimestamp" in metadata,
        opted_out=metadata.get("labels", {}).get(MODE) == "off",
        original=pod,
    )
    if "resourceClaims" in spec:
        life.claims, life.served = True, "driver" if node else ""
    elif node and life.limits:
        life.served = "plugin"
    return life


def read_machines(objects: Sequence[Json], hardware: Mapping[str, Any]) -> Iterator[Machine]:
    """Read the nodes, and what stands in them."""
    published: dict[str, Counter[str]] = {}
    for published_slice in objects:
        if (
            published_slice["kind"] == "ResourceSlice"
            and published_slice["spec"]["pool"]["resourceSliceCount"] == 1
        ):
            counts = published.setdefault(published_slice["spec"]["nodeName"], Counter())
            counts[CLASSES["gpu"]] += len(published_slice["spec"]["devices"])
    for node in objects:
        if node["kind"] != "Node":
            continue
        name, allocatable = node["metadata"]["name"], node["status"]["allocatable"]
        truth = hardware[name].devices
        yield Machine(
            name,
            dict(node["metadata"]["labels"]),
            dict(node["metadata"].get("annotations", {})),
            list(node["spec"].get("taints", ())),
            {key: int(n) for key, n in allocatable.items() if "/" in key},
            None if truth is None else {class_of(kind): n for kind, n in truth.items()},
            set(hardware[name].plugins),
            dict(published.get(name, {})),
            bool(node["spec"].get("unschedulable")),
            node["status"]["conditions"][0]["status"] == "True",
            {"cpu": _milli(allocatable["cpu"]), "pods": int(allocatable["pods"])},
        )
