"""Surprises of the whole cluster, and of those who administer it."""

from e2e.clusters.drawn import PRODUCTS, DrawnCluster
from e2e.clusters.objects import GPU, SYSTEM, device_class, owned, owner_reference, pod, quota
from e2e.clusters.surprise import Stage, surprise

NODES, LATER = Stage.NODES, Stage.LATER


@surprise(86, "a quota on GPUs that is used up")
def used_quota(cluster: DrawnCluster) -> None:
    space = cluster.add_space(cluster.next_name("quota"))
    load = cluster.add("Deployment", {GPU: 1}, pods=2, space=space)
    cluster.objects.append(quota(space, "gpus", {f"requests.{GPU}": f"{len(load.pods)}"}))


@surprise(87, "a LimitRange that gives containers a GPU", rig=False)
def default_limit(cluster: DrawnCluster) -> None:
    limit = {"type": "Container", "default": {GPU: "1"}, "defaultRequest": {GPU: "1"}}
    space = cluster.add_space(cluster.next_name("team-default"))
    cluster.objects.append(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "default", "namespace": space},
            "spec": {"limits": [limit]},
        }
    )
    cluster.add("Deployment", {GPU: 1}, pods=1, space=space)


@surprise(93, "GPU Operator runs the plugin", NODES, rig=False)
def operator(cluster: DrawnCluster) -> None:
    labels = {
        "nvidia.com/gpu.deploy.device-plugin": "true",
        "nvidia.com/gpu.deploy.mig-manager": "true",
    }
    for _ in range(2):
        name = cluster.add_node("operated", PRODUCTS[1], plugins={}, labels=labels)
        for part in ("capacity", "allocatable"):
            cluster.nodes[name]["status"][part][GPU] = "2"
        cluster.left[name][GPU] = 2
        cluster.run_plugin("nvidia", name, owner="nvidia-device-plugin-daemonset")
        cluster.hardware[name].devices = {"gpu": 2}


@surprise(94, "the plugin is installed twice", NODES)
def two_installations(cluster: DrawnCluster) -> None:
    name = cluster.add_node("second", PRODUCTS[1], plugins={})
    for part in ("capacity", "allocatable"):
        cluster.nodes[name]["status"][part][GPU] = "2"
    cluster.left[name][GPU] = 2
    cluster.run_plugin("nvidia", name, owner="nvidia-plugin-by-hand")
    cluster.hardware[name].devices = {"gpu": 2}


@surprise(95, "the plugin changes its pods on deletion only", NODES, rig=False)
def on_delete(cluster: DrawnCluster) -> None:
    for daemons in cluster.daemons.values():
        daemons["spec"]["updateStrategy"] = {"type": "OnDelete"}


@surprise(96, "NVIDIA's driver is installed for compute domains only", LATER, rig=False)
def compute_domains(cluster: DrawnCluster) -> None:
    path = {"path": "/var/lib/kubelet/plugins/compute-domain.nvidia.com"}
    spec = {
        "containers": [{"name": "main", "image": "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0"}],
        "volumes": [{"name": "plugin", "hostPath": path}],
    }
    name = "nvidia-dra-driver-gpu-kubelet-plugin"
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    whole = {"selector": {"matchLabels": labels}, "template": template}
    cluster.objects.append(owned("DaemonSet", SYSTEM, name, whole))
    for at in cluster.nodes:
        metadata = {"labels": labels, "ownerReferences": [owner_reference("DaemonSet", name)]}
        made = pod(SYSTEM, cluster.next_name("domains"), {**spec, "nodeName": at}, metadata)
        cluster.objects.append(made)


@surprise(97, "two classes with one extended resource name", NODES, rig=False)
def two_classes(cluster: DrawnCluster) -> None:
    for name, created in (("fast.example.com", "01"), ("slow.example.com", "02")):
        made = device_class(name, "gpu", "example.com/gpu")
        made["metadata"]["creationTimestamp"] = f"2026-01-{created}T00:00:00Z"
        cluster.objects.append(made)


@surprise(98, "a webhook of another team on all pods", LATER, rig=False)
def other_webhook(cluster: DrawnCluster) -> None:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"]}
    hook = {
        "name": "pods.example.com",
        "failurePolicy": "Fail",
        "rules": [rule | {"resources": ["pods"]}],
        "clientConfig": {"service": {"name": "check", "namespace": "other"}},
    }
    cluster.objects.append(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "other-team"},
            "webhooks": [hook],
        }
    )


@surprise(99, "pods that need a group of no nodes", LATER)
def empty_group(cluster: DrawnCluster) -> None:
    near = {"nodeSelector": {"pool": "scaled-to-zero"}}
    cluster.add("Deployment", {GPU: 1}, pods=1, nodes=[""], spec=near)


@surprise(100, "nodes of a NodePool of Karpenter", NODES, rig=False)
def node_pool(cluster: DrawnCluster) -> None:
    labels = {"karpenter.sh/nodepool": "gpus"}
    for _ in range(2):
        cluster.add_node("karpenter", PRODUCTS[1], labels=labels)


@surprise(101, "a quota by pods without room for one more")
def pods_quota(cluster: DrawnCluster) -> None:
    space = cluster.add_space(cluster.next_name("few-pods"))
    load = cluster.add("Deployment", {GPU: 1}, pods=1, space=space)
    cluster.objects.append(quota(space, "pods", {"pods": f"{max(1, len(load.pods))}"}))


@surprise(102, "a priority that evicts nobody", rig=False)
def never_preempts(cluster: DrawnCluster) -> None:
    cluster.objects.append(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "patient"},
            "value": 500,
            "preemptionPolicy": "Never",
        }
    )
    spec = {"priorityClassName": "patient", "priority": 500, "preemptionPolicy": "Never"}
    cluster.add("Deployment", {GPU: 1}, pods=1, spec=spec)


@surprise(103, "the reader may not list budgets and quotas", LATER, rig=False)
def unreadable(cluster: DrawnCluster) -> None:
    cluster.hidden |= {"PodDisruptionBudget", "ResourceQuota"}


@surprise(104, "a dump without budgets and Jobs", LATER, rig=False)
def partial_dump(cluster: DrawnCluster) -> None:
    cluster.hidden |= {"PodDisruptionBudget", "Job"}
