"""Surprises of nodes: what they offer, what runs on them, and what they are."""

import json

from e2e.clusters.drawn import PRODUCTS, DrawnCluster
from e2e.clusters.objects import GPU, HOST, local_volume
from e2e.clusters.surprise import Stage, surprise

NODES, PODS, LATER = Stage.NODES, Stage.PODS, Stage.LATER
BIG, MIDDLE, SMALL = PRODUCTS
# A product that no other node has.
LAST = ("NVIDIA-H800", 8, "lab-h800", "81559")
SRIOV, RDMA, AMD = "openshift.io/sriov", "rdma/hca", "amd.com/gpu"


@surprise(1, "a node is cordoned, with running GPU pods", LATER)
def cordoned(cluster: DrawnCluster) -> None:
    cluster.nodes[cluster.take(used=True)]["spec"]["unschedulable"] = True


@surprise(2, "a node is not ready, and its pods still run in the API", LATER, rig=False)
def not_ready(cluster: DrawnCluster) -> None:
    name = cluster.take(used=True)
    cluster.nodes[name]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
    cluster.nodes[name]["spec"]["taints"].append(taint)
    cluster.hardware[name].devices = None


@surprise(3, "a taint that came after the GPU pods, which do not tolerate it", LATER)
def late_taint(cluster: DrawnCluster) -> None:
    name = cluster.take(used=True)
    taint = {"key": "team", "value": "ml", "effect": "NoSchedule"}
    cluster.nodes[name]["spec"]["taints"].append(taint)


@surprise(4, "one device of eight is unhealthy", NODES, rig=False)
def unhealthy_device(cluster: DrawnCluster) -> None:
    name = cluster.add_node("sick", BIG)
    cluster.nodes[name]["status"]["allocatable"][GPU] = "7"
    cluster.left[name][GPU] = 7
    cluster.hardware[name].devices = {"gpu": 7}
    cluster.nodes[name]["metadata"]["labels"]["nvidia.com/gpu.count"] = "7"


@surprise(5, "the plugin crashed: capacity 0 of the name, and pods with it", LATER, rig=False)
def crashed_plugin(cluster: DrawnCluster) -> None:
    name = cluster.take(used=True)
    for part in ("capacity", "allocatable"):
        cluster.nodes[name]["status"][part][GPU] = "0"
    cluster.hardware[name].plugins.clear()


@surprise(6, "GPUs without labels of feature discovery", NODES)
def without_labels(cluster: DrawnCluster) -> None:
    name = cluster.add_node("plain", MIDDLE)
    labels = cluster.nodes[name]["metadata"]["labels"]
    for key in [each for each in labels if each.startswith("nvidia.com/")]:
        del labels[key]


@surprise(7, "different numbers of GPUs in one group", NODES)
def different_counts(cluster: DrawnCluster) -> None:
    cluster.add_node("mixed", BIG)
    cluster.add_node("mixed", MIDDLE)


@surprise(8, "different products in one group", NODES)
def different_products(cluster: DrawnCluster) -> None:
    cluster.add_node("fleet", MIDDLE)
    cluster.add_node("fleet", SMALL)


@surprise(9, "plugins of two vendors on one node", NODES, rig=False)
def two_vendors(cluster: DrawnCluster) -> None:
    plugins = {"nvidia": {GPU: 2}, "amd": {AMD: 2}}
    name = cluster.add_node("both", MIDDLE, plugins=plugins, devices={"gpu": 2})
    cluster.add("Deployment", {GPU: 1}, pods=1, nodes=[name])
    cluster.add("Deployment", {AMD: 1}, pods=1, nodes=[name])


@surprise(10, "SR-IOV's plugin beside NVIDIA's", NODES, rig=False)
def with_sriov(cluster: DrawnCluster) -> None:
    for _ in range(2):
        plugins = {"nvidia": {GPU: 2}, "sriov": {SRIOV: 8}}
        name = cluster.add_node("network", MIDDLE, plugins=plugins)
        cluster.add("Deployment", {GPU: 1, SRIOV: 1}, pods=1, nodes=[name])


@surprise(11, "the shared RDMA plugin beside NVIDIA's", NODES, rig=False)
def with_rdma(cluster: DrawnCluster) -> None:
    plugins = {"nvidia": {GPU: 8}, "rdma": {RDMA: 64}}
    name = cluster.add_node("rdma", BIG, plugins=plugins)
    cluster.add("StatefulSet", {GPU: 4, RDMA: 1}, pods=1, nodes=[name])


@surprise(12, "a node of a group has the driver already", NODES, rig=False)
def driven_node(cluster: DrawnCluster) -> None:
    cluster.add_node("half", MIDDLE)
    name = cluster.add_node("half", MIDDLE, plugins={}, devices={"gpu": 2})
    cluster.publish(name, 2)


@surprise(13, "a plugin and slices of the same devices on one node", NODES, rig=False)
def dual_node(cluster: DrawnCluster) -> None:
    cluster.publish(cluster.add_node("dual", MIDDLE), 2)


@surprise(14, "slices of an incomplete generation", NODES, rig=False)
def incomplete_pool(cluster: DrawnCluster) -> None:
    name = cluster.add_node("partial", MIDDLE, plugins={}, devices={})
    cluster.publish(name, 2, count=3)


@surprise(15, "slices without a class for them", NODES, rig=False)
def without_class(cluster: DrawnCluster) -> None:
    cluster.objects = [each for each in cluster.objects if each["kind"] != "DeviceClass"]
    cluster.native = False
    name = cluster.add_node("early", MIDDLE, plugins={}, devices={"gpu": 2})
    cluster.publish(name, 2)


@surprise(16, "a node of the control plane has a GPU", NODES)
def control_plane(cluster: DrawnCluster) -> None:
    name = cluster.add_node("masters", SMALL)
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    cluster.nodes[name]["spec"]["taints"].append(taint)


@surprise(17, "a long name with dots", NODES, rig=False)
def long_name(cluster: DrawnCluster) -> None:
    name = f"{cluster.next_name('gpu')}.{'.'.join(['rack' * 4] * 11)}.example"
    cluster.add_node("dotted", SMALL, name=name[:190].rstrip("."), labels={HOST: name[:60]})


@surprise(18, "a typing error in the label of one node of a group", NODES)
def typing_error(cluster: DrawnCluster) -> None:
    cluster.add_node("train", MIDDLE)
    cluster.add_node("trian", MIDDLE)


@surprise(19, "a node without labels of any group", NODES, rig=False)
def without_group(cluster: DrawnCluster) -> None:
    labels = cluster.nodes[cluster.add_node("none", SMALL)]["metadata"]["labels"]
    for key in ("pool", "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"):
        del labels[key]


@surprise(20, "a spot node that goes away", LATER, rig=False)
def going_node(cluster: DrawnCluster) -> None:
    name = cluster.take()
    taint = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}
    cluster.nodes[name]["spec"]["taints"].append(taint)


@surprise(21, "MIG with strategy mixed", NODES, rig=False)
def mixed_partitions(cluster: DrawnCluster) -> None:
    partition = "nvidia.com/mig-1g.10gb"
    labels = {"nvidia.com/mig.strategy": "mixed"}
    devices = {"mig-1g.10gb": 7}
    plugins = {"nvidia": {partition: 7}}
    name = cluster.add_node("mig", SMALL, plugins=plugins, devices=devices, labels=labels)
    cluster.add("Deployment", {partition: 1}, pods=2, nodes=[name, name])


@surprise(22, "MIG with strategy single: the name counts partitions", NODES, rig=False)
def single_partitions(cluster: DrawnCluster) -> None:
    labels = {
        "nvidia.com/mig.strategy": "single",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
        "nvidia.com/gpu.count": "7",
        "nvidia.com/gpu.memory": "9984",
    }
    plugins = {"nvidia": {GPU: 7}}
    devices = {"mig-1g.10gb": 7}
    name = cluster.add_node("migs", SMALL, plugins=plugins, devices=devices, labels=labels)
    cluster.taken.add(name)
    cluster.add("Deployment", {GPU: 1}, pods=2, nodes=[name, name])


def sliced(cluster: DrawnCluster, unit: str, **labels: str) -> str:
    """Add a node whose plugin gives out each GPU four times."""
    shared = {
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.replicas": "4",
        **{f"nvidia.com/{key.replace('_', '-')}": text for key, text in labels.items()},
    }
    plugins = {"nvidia": {unit: 8}}
    name = cluster.add_node("sliced", MIDDLE, plugins=plugins, devices={"gpu": 2}, labels=shared)
    cluster.taken.add(name)
    return name


@surprise(23, "time slicing: four pods on each GPU", NODES)
def time_slicing(cluster: DrawnCluster) -> None:
    name = sliced(cluster, GPU)
    shared = {"nvidia.com/gpu.product": f"{MIDDLE[0]}-SHARED"}
    cluster.nodes[name]["metadata"]["labels"].update(shared)
    number = cluster.draw.number(1, 6)
    cluster.add("Deployment", {GPU: 1}, pods=number, nodes=[name] * number)


@surprise(24, "time slicing that renames the resource", NODES, rig=False)
def renamed_slices(cluster: DrawnCluster) -> None:
    name = sliced(cluster, "nvidia.com/gpu.shared")
    cluster.add("Deployment", {"nvidia.com/gpu.shared": 1}, pods=2, nodes=[name, name])


@surprise(25, "MPS shares each GPU", NODES, rig=False)
def shared_by_mps(cluster: DrawnCluster) -> None:
    name = sliced(cluster, GPU)
    labels = {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/mps.capable": "true"}
    cluster.nodes[name]["metadata"]["labels"].update(labels)
    cluster.add("Deployment", {GPU: 1}, pods=2, nodes=[name, name])


@surprise(26, "a node of HAMi", NODES, rig=False)
def node_of_hami(cluster: DrawnCluster) -> None:
    plugins = {"hami": {GPU: 20}}
    name = cluster.add_node("hami", MIDDLE, plugins=plugins, devices={"share": 2})
    listed = [
        {"id": f"GPU-{n}", "index": n, "count": 10, "devmem": 40960, "devcore": 100}
        | {"type": "NVIDIA-NVIDIA A100-PCIE-40GB", "health": True}
        for n in range(2)
    ]
    notes = {"hami.io/node-nvidia-register": json.dumps(listed)}
    cluster.nodes[name]["metadata"]["annotations"].update(notes)
    cluster.taken.add(name)
    limits = {GPU: 1, "nvidia.com/gpumem": 8000}
    cluster.left[name]["nvidia.com/gpumem"] = 10**6
    cluster.add("Deployment", limits, pods=2, nodes=[name, name])


@surprise(27, "GPUs for virtual machines", NODES, rig=False)
def for_machines(cluster: DrawnCluster) -> None:
    name, labels = "nvidia.com/GA100_A100_PCIE_40GB", {}
    labels["nvidia.com/gpu.workload.config"] = "vm-passthrough"
    cluster.add_node("machines", MIDDLE, plugins={"nvidia": {name: 2}}, labels=labels)


@surprise(28, "free GPUs where no CPU is left", LATER)
def without_cpu(cluster: DrawnCluster) -> None:
    name = cluster.add_node("busy", MIDDLE)
    main = {"name": "main", "image": "example.com/x", "resources": {"requests": {"cpu": "63500m"}}}
    cluster.add("Deployment", {}, pods=1, nodes=[name], spec={"containers": [main]})
    for load in cluster.workloads[:3]:
        request_cpu(load.pods, load.owner)


def request_cpu(pods: list[dict[str, object]], owner: dict[str, object]) -> None:
    """Let a workload ask for a CPU."""
    for asking in (*pods, owner):
        spec = asking["spec"]
        assert isinstance(spec, dict)
        inside = spec["template"]["spec"] if "template" in spec else spec
        inside["containers"][0]["resources"].setdefault("requests", {})["cpu"] = "1"


@surprise(29, "a node with as many pods as it may have", LATER, rig=False)
def full_of_pods(cluster: DrawnCluster) -> None:
    name = cluster.add_node("full", MIDDLE)
    cluster.nodes[name]["status"]["allocatable"]["pods"] = "3"
    cluster.add("Deployment", {}, pods=2, nodes=[name, name])


@surprise(30, "local disks on one node only", rig=False)
def local_disks(cluster: DrawnCluster) -> None:
    name = cluster.take()
    space, claim = cluster.any_space(), cluster.next_name("scratch")
    cluster.objects += local_volume(space, claim, name)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    cluster.add(
        "Deployment", {GPU: 1}, space=space, pods=1, spec={"volumes": [volume]}, nodes=[name]
    )


@surprise(31, "a virtual kubelet with GPUs", NODES, rig=False)
def virtual_kubelet(cluster: DrawnCluster) -> None:
    labels = {"type": "virtual-kubelet"}
    name = cluster.add_node("virtual", BIG, labels=labels)
    taint = {"key": "virtual-kubelet.io/provider", "value": "x", "effect": "NoSchedule"}
    cluster.nodes[name]["spec"]["taints"].append(taint)
    cluster.hardware[name].devices = None
    cluster.taken.add(name)


@surprise(32, "a Windows node in the group", NODES, rig=False)
def windows(cluster: DrawnCluster) -> None:
    name = cluster.add_node("pool-a", MIDDLE, labels={"kubernetes.io/os": "windows"})
    cluster.nodes[name]["status"]["nodeInfo"]["operatingSystem"] = "windows"
    cluster.hardware[name].devices = None
    cluster.taken.add(name)


@surprise(33, "an arm64 node in a group of amd64", NODES)
def arm(cluster: DrawnCluster) -> None:
    cluster.add_node("pool-a", SMALL, labels={"kubernetes.io/arch": "arm64"})


@surprise(34, "a kubelet without the DRA API", NODES, rig=False)
def old_kubelet(cluster: DrawnCluster) -> None:
    name = cluster.add_node("old", MIDDLE)
    cluster.nodes[name]["status"]["nodeInfo"]["kubeletVersion"] = "v1.33.4"
    cluster.hardware[name].devices = None
    cluster.taken.add(name)


@surprise(105, "two groups differ in a taint only", NODES)
def taint_of_a_group(cluster: DrawnCluster) -> None:
    cluster.add_node("twin", MIDDLE)
    name = cluster.add_node("twin", MIDDLE)
    taint = {"key": "batch", "value": "only", "effect": "NoSchedule"}
    cluster.nodes[name]["spec"]["taints"].append(taint)
    tolerates = {"tolerations": [{"key": "batch", "operator": "Exists"}]}
    cluster.add("Job", {GPU: 1}, pods=1, nodes=[name], spec=tolerates)


@surprise(106, "free GPUs so spread that no node has the four that one pod needs")
def fragmented(cluster: DrawnCluster) -> None:
    names = [cluster.add_node("spread", BIG) for _ in range(2)]
    near = {"nodeSelector": {"pool": "spread"}}
    for name in names:
        cluster.add("Deployment", {GPU: 5}, pods=1, nodes=[name], spec=near)
    cluster.add("Deployment", {GPU: 4}, pods=1, nodes=[""], spec=near)


@surprise(107, "the last node of a product, that pods select")
def last_of_product(cluster: DrawnCluster) -> None:
    name = cluster.add_node("last", LAST)
    labels = {"nvidia.com/gpu.product": LAST[0]}
    near = {"nodeSelector": labels}
    cluster.add("Deployment", {GPU: 1}, pods=2, nodes=[name, name], spec=near)


@surprise(108, "more pods than devices will be there", NODES)
def overcommitted(cluster: DrawnCluster) -> None:
    name = sliced(cluster, GPU)
    near = {"nodeSelector": {"pool": "sliced"}}
    cluster.add("Deployment", {GPU: 1}, pods=7, nodes=[name] * 7, spec=near)
