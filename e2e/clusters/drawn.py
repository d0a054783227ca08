"""Draws a cluster: ordinary nodes, plugins and workloads, and then surprises over them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from e2e.clusters.objects import (
    DRIVER,
    GPU,
    MODE,
    PLUGIN_FOLDER,
    SYSTEM,
    Json,
    container,
    device_class,
    namespace,
    node,
    owned,
    owner_reference,
    pod,
    resource_slice,
)
from e2e.clusters.surprise import SURPRISES, Stage
from e2e.generator.draw import Draw

# Product, GPUs, instance type of the rig's machines, and MiB of each GPU.
PRODUCTS = (
    ("NVIDIA-H100-80GB-HBM3", 8, "hgx-h100", "81559"),
    ("NVIDIA-A100-PCIE-40GB", 2, "pcie-2a100", "40960"),
    ("NVIDIA-L4", 1, "edge-l4", "23034"),
)
IMAGES = {
    "nvidia": "nvcr.io/nvidia/k8s-device-plugin:v0.17.0",
    "sriov": "ghcr.io/k8snetworkplumbingwg/sriov-network-device-plugin:v3.9.0",
    "rdma": "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.2",
    "hami": "projecthami/hami:v2.5.0",
    "amd": "rocm/k8s-device-plugin:1.31.0",
}
KINDS = ("Deployment", "Deployment", "StatefulSet", "Job", "ReplicaSet")
MOST_PODS = 110


@dataclass
class Hardware:
    """What stands in a node, which its objects need not tell: the devices of a driver to come.

    `devices` is what a driver would publish, by kind; None where no driver can run. `plugins` are
    the DaemonSets whose pods run there.
    """

    devices: dict[str, int] | None
    product: str = ""
    plugins: list[str] = field(default_factory=list)


@dataclass
class Workload:
    """An owner with its pods, as it was drawn."""

    kind: str
    space: str
    name: str
    labels: dict[str, str]
    owner: Json
    pods: list[Json]

    @property
    def template(self) -> Json:
        """The spec of the pods as the owner has it."""
        spec = self.owner["spec"]["template"]["spec"]
        assert isinstance(spec, dict)
        return spec


@dataclass
class DrawnCluster:
    """A cluster that is being drawn. `surprises` are the numbers of those that came over it."""

    draw: Draw
    size: int
    surprises: tuple[int, ...] = ()
    objects: list[Json] = field(default_factory=list)
    nodes: dict[str, Json] = field(default_factory=dict)
    hardware: dict[str, Hardware] = field(default_factory=dict)
    left: dict[str, dict[str, int]] = field(default_factory=dict)
    spaces: dict[str, Json] = field(default_factory=dict)
    workloads: list[Workload] = field(default_factory=list)
    daemons: dict[str, Json] = field(default_factory=dict)
    native: bool = False
    # Of whose plugins a surprise says something already: others do not take it away again.
    taken: set[str] = field(default_factory=set)
    # Kinds that are there, and that the reader does not see.
    hidden: set[str] = field(default_factory=set)
    _number: int = 0

    # --- nodes -------------------------------------------------------------------------------

    def next_name(self, stem: str) -> str:
        """Return a name that nothing has."""
        self._number += 1
        return f"{stem}-{self._number}"

    def add_node(  # noqa: PLR0913  # what a node can have
        self,
        pool: str,
        product: tuple[str, int, str, str] = PRODUCTS[0],
        *,
        name: str = "",
        plugins: Mapping[str, Mapping[str, int]] | None = None,
        devices: dict[str, int] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> str:
        """Add a node with the plugins and their units; without any, one of NVIDIA's."""
        title, gpus, machine, memory = product
        name = name or self.next_name("n")
        of_plugins = {"nvidia": {GPU: gpus}} if plugins is None else plugins
        units = {key: n for each in of_plugins.values() for key, n in each.items()}
        of_node = {
            "pool": pool,
            "node.kubernetes.io/instance-type": machine,
            "topology.kubernetes.io/zone": self.draw.pick(("a", "b")),
        }
        if gpus:
            of_node |= {
                "nvidia.com/gpu.present": "true",
                "nvidia.com/gpu.product": title,
                "nvidia.com/gpu.count": f"{gpus}",
                "nvidia.com/gpu.memory": memory,
            }
        self.nodes[name] = node(name, {**of_node, **(labels or {})}, units)
        self.left[name] = {**units, "pods": MOST_PODS}
        self.hardware[name] = Hardware({"gpu": gpus} if devices is None else devices, title)
        for plugin in of_plugins:
            self.run_plugin(plugin, name)
        return name

    def run_plugin(self, plugin: str, name: str, *, owner: str = "") -> None:
        """Run a pod of a plugin on a node."""
        owner = owner or f"{plugin}-device-plugin"
        if owner not in self.daemons:
            self.daemons[owner] = self._plugin_daemon(plugin, owner)
            self.objects.append(self.daemons[owner])
        template = self.daemons[owner]["spec"]["template"]
        spec = {**template["spec"], "nodeName": name}
        metadata = {
            "labels": {"app": owner},
            "ownerReferences": [owner_reference("DaemonSet", owner)],
        }
        self.objects.append(pod(SYSTEM, self.next_name(owner), spec, metadata))
        self.nodes[name]["metadata"]["labels"][f"example.com/{owner}"] = "true"
        self.hardware[name].plugins.append(owner)

    def _plugin_daemon(self, plugin: str, owner: str) -> Json:
        spec = {
            "containers": [{"name": "main", "image": IMAGES[plugin]}],
            "volumes": [{"name": "plugins", "hostPath": {"path": PLUGIN_FOLDER}}],
            "tolerations": [{"operator": "Exists"}],
            "nodeSelector": {f"example.com/{owner}": "true"},
        }
        template = {"metadata": {"labels": {"app": owner}}, "spec": spec}
        whole = {"selector": {"matchLabels": {"app": owner}}, "template": template}
        return owned("DaemonSet", SYSTEM, owner, whole)

    def publish(self, name: str, number: int, count: int = 1) -> None:
        """Let a driver publish GPUs of a node."""
        product = self.hardware[name].product
        self.objects.append(resource_slice(name, number, product, count))

    def plugged(self) -> list[str]:
        """Return the ordinary nodes that have NVIDIA's plugin."""
        chosen = [
            name
            for name, each in self.nodes.items()
            if int(each["status"]["allocatable"].get(GPU, "0")) and name not in self.taken
        ]
        return chosen or [self.add_node("extra")]

    def take(self, *, used: bool = False) -> str:
        """Return an ordinary node for a surprise, once; with `used`, one that has GPU pods."""
        names = self.plugged()
        if used:
            busy = {each["spec"].get("nodeName") for load in self.workloads for each in load.pods}
            names = [each for each in names if each in busy] or names
        name = self.draw.pick(names)
        self.taken.add(name)
        return name

    # --- namespaces and workloads ------------------------------------------------------------

    def add_space(self, name: str, mode: str = "", **labels: str) -> str:
        """Add a namespace."""
        more = {MODE: mode} if mode else {}
        self.spaces[name] = namespace(name, {**more, **labels})
        self.objects.append(self.spaces[name])
        return name

    def any_space(self) -> str:
        """Return one of the namespaces of teams."""
        return self.draw.pick([each for each in self.spaces if each.startswith("team")])

    def add(  # noqa: PLR0913  # what a workload can have
        self,
        kind: str,
        limits: Mapping[str, int],
        *,
        space: str = "",
        pods: int | None = None,
        nodes: Sequence[str] | None = None,
        spec: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        owner: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> Workload:
        """Add an owner and its pods, on these nodes or where they fit; `owner` is another kind."""
        space = space or self.any_space()
        name = self.next_name(kind.lower()[:6])
        mine = {"app": name, **(labels or {})}
        count = pods if pods is not None else self.draw.number(1, 3)
        template_spec = {"containers": [container(limits)], **(spec or {})}
        if kind == "Job":
            template_spec.setdefault("restartPolicy", "Never")
        template: Json = {"metadata": {"labels": mine}, "spec": template_spec}
        if annotations:
            template["metadata"]["annotations"] = {**annotations}
        whole = self._owner_spec(kind, mine, template, count) | dict(fields or {})
        made = Workload(kind, space, name, mine, owned(kind, space, name, whole, metadata), [])
        where = nodes if nodes is not None else [*self._places(limits, template_spec, count)]
        for index, at in enumerate(where):
            if nodes is not None:
                self._take_units(at, limits)
            made.pods.append(self._pod_of(made, template, index, at, owner))
        if owner:  # of a kind that nobody knows: only its pods are seen
            made.kind = owner
        else:
            self.objects.append(made.owner)
        self.objects += made.pods
        self.workloads.append(made)
        return made

    def _owner_spec(self, kind: str, labels: Json, template: Json, count: int) -> Json:
        whole: Json = {"template": template}
        if kind == "Job":
            return {**whole, "parallelism": count, "completions": count, "backoffLimit": 6}
        whole["selector"] = {"matchLabels": dict(labels)}
        if kind == "StatefulSet":
            whole |= {"serviceName": "none", "podManagementPolicy": "Parallel"}
        return whole if kind == "DaemonSet" else {**whole, "replicas": count}

    def _pod_of(self, made: Workload, template: Json, index: int, at: str, owner: str) -> Json:
        labels, kind, name = dict(template["metadata"]["labels"]), made.kind, made.name
        reference = owner_reference(kind, name)
        title = f"{name}-{index}"
        if owner:
            reference = owner_reference(owner, name, "example.com/v1")
        elif kind == "Deployment":
            labels["pod-template-hash"] = "7d9f"
            reference, title = owner_reference("ReplicaSet", f"{name}-7d9f"), f"{name}-7d9f-{index}"
        elif kind == "StatefulSet":
            labels |= {
                "statefulset.kubernetes.io/pod-name": title,
                "apps.kubernetes.io/pod-index": f"{index}",
            }
        elif kind == "Job":
            labels |= {"job-name": name, "batch.kubernetes.io/job-name": name}
        metadata: Json = {"labels": labels, "ownerReferences": [reference]}
        if notes := template["metadata"].get("annotations"):
            metadata["annotations"] = dict(notes)
        spec = {**template["spec"], **({"nodeName": at} if at else {})}
        return pod(made.space, title, spec, metadata)

    def add_bare(
        self,
        limits: Mapping[str, int],
        *,
        space: str = "",
        at: str | None = None,
        spec: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Json:
        """Add a pod that nobody owns."""
        space = space or self.any_space()
        name = self.next_name("bare")
        mine = {"containers": [container(limits)], **(spec or {})}
        if at is None:
            at = next(self._places(limits, mine, 1))
        else:
            self._take_units(at, limits)
        more = {"labels": {"app": name}, **(metadata or {})}
        made = pod(space, name, {**mine, **({"nodeName": at} if at else {})}, more)
        self.objects.append(made)
        self.workloads.append(Workload("Pod", space, name, {"app": name}, made, [made]))
        return made

    # --- where pods start --------------------------------------------------------------------

    def _places(self, limits: Mapping[str, int], spec: Json, count: int) -> Iterator[str]:
        """Yield a node for each pod, or nothing for those that wait."""
        for _ in range(count):
            names = [name for name in self.nodes if self.fits(name, limits, spec)]
            at = self.draw.pick(names) if names else ""
            if at:
                self._take_units(at, limits)
            yield at

    def fits(self, name: str, limits: Mapping[str, int], spec: Json) -> bool:
        """Whether a pod could start on a node."""
        labels = self.nodes[name]["metadata"]["labels"]
        near = all(labels.get(key) == text for key, text in spec.get("nodeSelector", {}).items())
        tainted = self.nodes[name]["spec"]["taints"] and "tolerations" not in spec
        left = self.left[name]
        room = all(left.get(key, 0) >= number for key, number in limits.items())
        return near and not tainted and room and left["pods"] > 0

    def _take_units(self, name: str, limits: Mapping[str, int]) -> None:
        for key, number in {**limits, "pods": 1}.items():
            if name in self.left:
                self.left[name][key] = self.left[name].get(key, 0) - number

    def seen(self) -> list[Json]:
        """Return the objects that a reader sees."""
        return [each for each in self.objects if each["kind"] not in self.hidden]

    def any_workload(self, suits: Callable[[Workload], bool]) -> Workload:
        """Return a workload with pods that suits, or a new Deployment."""
        suiting = [each for each in self.workloads if each.pods and suits(each)]
        return self.draw.pick(suiting) if suiting else self.add("Deployment", {GPU: 1}, pods=2)


def draw(
    seed: int, size: int, surprises: Iterable[int] | None = None, *, rig: bool = False
) -> DrawnCluster:
    """Draw a cluster of about so many nodes; with `rig`, one that the rig shows as it is."""
    cluster = DrawnCluster(Draw(seed), size)
    chosen = _choose(cluster, rig=rig) if surprises is None else sorted(surprises)
    cluster.surprises = tuple(chosen)
    _add_basis(cluster)
    for stage in Stage:
        if stage is Stage.PODS:
            _add_ordinary_pods(cluster)
        for number in chosen:
            if SURPRISES[number].stage is stage:
                SURPRISES[number].apply(cluster)
    cluster.objects = [*cluster.nodes.values(), *cluster.objects]
    return cluster


def _choose(cluster: DrawnCluster, *, rig: bool) -> list[int]:
    """Choose surprises: few in small clusters, up to half of all in large ones."""
    possible = [each for each in sorted(SURPRISES) if SURPRISES[each].rig or not rig]
    wanted = cluster.draw.number(1, max(3, min(len(possible) // 2, cluster.size)))
    chosen: set[int] = set()
    while len(chosen) < wanted:
        chosen.add(cluster.draw.pick(possible))
    return sorted(chosen)


def _add_basis(cluster: DrawnCluster) -> None:
    """Add pools of nodes, namespaces and classes."""
    pick = cluster.draw
    cluster.native = pick.chance(0.3)
    cluster.objects.append(device_class(DRIVER, "gpu", GPU if cluster.native else ""))
    pools = [f"pool-{letter}" for letter in "abcd"[: pick.number(1, 4)]]
    products = {pool: pick.pick(PRODUCTS) for pool in pools}
    for _ in range(max(2, cluster.size - pick.number(0, cluster.size // 3))):
        pool = pick.pick(pools)
        cluster.add_node(pool, products[pool])
    for _ in range(max(0, cluster.size - len(cluster.nodes))):
        cluster.add_node("cpu", ("", 0, "m5.4xlarge", "0"), plugins={}, devices={})
    for number in range(pick.number(1, 4)):
        cluster.add_space(f"team-{number}")


def _add_ordinary_pods(cluster: DrawnCluster) -> None:
    """Add workloads until a part of the GPUs is held."""
    pick = cluster.draw
    total = sum(each.get(GPU, 0) for each in cluster.left.values())
    wanted = total * pick.number(20, 90) // 100
    held = 0
    for _ in range(4 * len(cluster.nodes)):
        if held >= wanted:
            return
        size, pods = pick.pick((1, 1, 1, 2, 4)), pick.number(1, 4)
        if not any(each.get(GPU, 0) >= size for each in cluster.left.values()):
            return
        made = cluster.add(pick.pick(KINDS), {GPU: size}, pods=pods)
        held += size * sum(bool(each["spec"].get("nodeName")) for each in made.pods)
