"""Surprises of pods: who owns them, what they ask for, and where they may run."""

from e2e.clusters.drawn import DrawnCluster
from e2e.clusters.objects import GPU, HOST, container, local_volume, owner_reference, pod
from e2e.clusters.surprise import Stage, surprise

LATER = Stage.LATER
ZONE = "topology.kubernetes.io/zone"


@surprise(35, "a bare pod with a GPU")
def bare_pod(cluster: DrawnCluster) -> None:
    cluster.add_bare({GPU: 1})


@surprise(36, "a static pod with a GPU", rig=False)
def static_pod(cluster: DrawnCluster) -> None:
    name = cluster.take()
    title = f"{cluster.next_name('agent')}-{name}"[:200]
    metadata = {
        "labels": {"app": "agent"},
        "annotations": {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"},
        "ownerReferences": [owner_reference("Node", name, "v1")],
    }
    spec = {"containers": [container({GPU: 1})], "nodeName": name}
    cluster.left[name][GPU] -= 1
    cluster.objects.append(pod(cluster.any_space(), title, spec, metadata))


@surprise(37, "a DaemonSet with a GPU on every node", Stage.NODES)
def daemon_set(cluster: DrawnCluster) -> None:
    spec = {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"example.com/probed": "true"}}
    names = [name for name in cluster.plugged() if cluster.left[name].get(GPU, 0) > 0]
    for name in names:
        cluster.nodes[name]["metadata"]["labels"]["example.com/probed"] = "true"
    cluster.add("DaemonSet", {GPU: 1}, nodes=names, spec=spec)


@surprise(38, "a StatefulSet whose pod has a volume on the disk of its node", rig=False)
def local_state(cluster: DrawnCluster) -> None:
    name = cluster.take()
    made = cluster.add("StatefulSet", {GPU: 1}, pods=1, nodes=[name])
    claim = f"data-{made.name}-0"
    cluster.objects += local_volume(made.space, claim, name)
    made.pods[0]["spec"]["volumes"] = [
        {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    ]
    made.owner["spec"]["volumeClaimTemplates"] = [
        {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    ]


@surprise(56, "a template that names its node", rig=False)
def named_node(cluster: DrawnCluster) -> None:
    name = cluster.take()
    made = cluster.add("Deployment", {GPU: 1}, pods=1, nodes=[name])
    made.template["nodeName"] = name


@surprise(57, "a node selector with the name of a host")
def named_host(cluster: DrawnCluster) -> None:
    name = cluster.take()
    near = {HOST: cluster.nodes[name]["metadata"]["labels"][HOST]}
    cluster.add("Deployment", {GPU: 1}, pods=1, nodes=[name], spec={"nodeSelector": near})


@surprise(58, "a node selector with a product of shared GPUs")
def old_product(cluster: DrawnCluster) -> None:
    name = cluster.add_node("shares", plugins={"nvidia": {GPU: 8}}, devices={"gpu": 2})
    product = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED"}
    sharing = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "4"}
    cluster.nodes[name]["metadata"]["labels"].update({**product, **sharing})
    cluster.taken.add(name)
    cluster.add("Deployment", {GPU: 1}, pods=2, nodes=[name, name], spec={"nodeSelector": product})


@surprise(59, "a node selector with a label of feature discovery or GPU Operator")
def operand_label(cluster: DrawnCluster) -> None:
    name = cluster.take()
    near = {"nvidia.com/gpu.deploy.device-plugin": "true"}
    if cluster.draw.chance(0.5):
        near = {"nvidia.com/gpu.present": "true"}
    cluster.nodes[name]["metadata"]["labels"].update(near)
    cluster.add("Deployment", {GPU: 1}, pods=1, nodes=[name], spec={"nodeSelector": near})


@surprise(60, "as many replicas as nodes, no two on one node")
def one_per_node(cluster: DrawnCluster) -> None:
    names = [cluster.add_node("apart", cluster_product(cluster)) for _ in range(3)]
    label = cluster.next_name("apart")
    term = {"labelSelector": {"matchLabels": {"set": label}}, "topologyKey": HOST}
    spec = {
        "nodeSelector": {"pool": "apart"},
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    }
    labels = {"set": label}
    cluster.add("StatefulSet", {GPU: 1}, pods=3, nodes=names, spec=spec, labels=labels)


def cluster_product(cluster: DrawnCluster) -> tuple[str, int, str, str]:
    """Return a product of machines."""
    from e2e.clusters.drawn import PRODUCTS  # noqa: PLC0415  # the tuple only

    return cluster.draw.pick(PRODUCTS)


@surprise(61, "pods spread over zones, and do not start otherwise")
def spread_over_zones(cluster: DrawnCluster) -> None:
    names = [cluster.add_node("zones", labels={ZONE: zone}) for zone in ("a", "b")]
    label = cluster.next_name("spread")
    rule = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"set": label}},
    }
    spec = {"nodeSelector": {"pool": "zones"}, "topologySpreadConstraints": [rule]}
    nodes = [names[0], names[1], names[0], names[1]]
    cluster.add("Deployment", {GPU: 1}, pods=4, nodes=nodes, spec=spec, labels={"set": label})


@surprise(62, "a pod that waits for a product that nobody has")
def waits_for_ever(cluster: DrawnCluster) -> None:
    near = {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-B200"}}
    cluster.add("Deployment", {GPU: 1}, pods=1, nodes=[""], spec=near)


@surprise(63, "a pod that waits because all GPUs are used")
def waits_for_room(cluster: DrawnCluster) -> None:
    names = [each for each in cluster.plugged() if cluster.left[each].get(GPU, 0) > 0]
    for name in names:
        cluster.add("ReplicaSet", {GPU: cluster.left[name][GPU]}, pods=1, nodes=[name])
    cluster.add("Deployment", {GPU: 1}, pods=1)


@surprise(64, "a pod with scheduling gates")
def gated(cluster: DrawnCluster) -> None:
    gates = {"schedulingGates": [{"name": "example.com/wait"}]}
    cluster.add("Deployment", {GPU: 1}, pods=1, nodes=[""], spec=gates)


@surprise(65, "a pod that ends since an hour, with a finalizer", LATER, rig=False)
def endless(cluster: DrawnCluster) -> None:
    load = cluster.any_workload(lambda each: each.kind in ("Deployment", "ReplicaSet"))
    running = [each for each in load.pods if each["spec"].get("nodeName")]
    for ending in running[:1]:
        ending["metadata"] |= {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["example.com/hold"],
        }


@surprise(66, "finished pods that still list their requests", rig=False)
def finished(cluster: DrawnCluster) -> None:
    name = cluster.draw.pick(cluster.plugged())
    made = cluster.add_bare({}, at=name)
    made["spec"]["containers"] = [container({GPU: 1})]
    made["status"]["phase"] = cluster.draw.pick(("Succeeded", "Failed"))


@surprise(67, "an init container that asks for more GPUs than the others", rig=False)
def greedy_start(cluster: DrawnCluster) -> None:
    name = cluster.add_node("start")
    start = container({GPU: 2}) | {"name": "start"}
    near = {"initContainers": [start], "nodeSelector": {"pool": "start"}}
    cluster.add("Deployment", {GPU: 1}, pods=1, nodes=[name], spec=near)
    cluster.left[name][GPU] -= 1


@surprise(68, "a sidecar with a GPU", rig=False)
def sidecar(cluster: DrawnCluster) -> None:
    name = cluster.add_node("side")
    side = container({GPU: 1}, restartPolicy="Always") | {"name": "side"}
    near = {"initContainers": [side], "nodeSelector": {"pool": "side"}}
    cluster.add("Deployment", {GPU: 1}, pods=1, nodes=[name], spec=near)
    cluster.left[name][GPU] -= 1


@surprise(69, "two containers with a GPU each", rig=False)
def two_containers(cluster: DrawnCluster) -> None:
    name = cluster.add_node("pairs")
    both = [container({GPU: 1}), container({GPU: 1}) | {"name": "second"}]
    spec = {"containers": both, "nodeSelector": {"pool": "pairs"}}
    cluster.add("Deployment", {GPU: 2}, pods=1, nodes=[name], spec=spec)


@surprise(70, "a template with different requests and limits, that nobody accepts", rig=False)
def invalid_template(cluster: DrawnCluster) -> None:
    broken = container({GPU: 2})
    broken["resources"]["requests"] = {GPU: "1"}
    cluster.add("Deployment", {}, pods=0, spec={"containers": [broken]}, fields={"replicas": 1})


@surprise(71, "NVIDIA_VISIBLE_DEVICES without a request")
def sees_all(cluster: DrawnCluster) -> None:
    seen = container({}) | {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    name = cluster.draw.pick(cluster.plugged())
    cluster.add("Deployment", {}, pods=1, nodes=[name], spec={"containers": [seen]})


@surprise(72, "a privileged pod with the device files of a GPU")
def device_file(cluster: DrawnCluster) -> None:
    name = cluster.draw.pick(cluster.plugged())
    main = container({}) | {"securityContext": {"privileged": True}}
    volume = {"name": "device", "hostPath": {"path": "/dev/nvidia0"}}
    spec = {"containers": [main], "volumes": [volume]}
    cluster.add("Deployment", {}, pods=1, nodes=[name], spec=spec)


@surprise(73, "a runtime class of NVIDIA without a request", rig=False)
def runtime_class(cluster: DrawnCluster) -> None:
    name = cluster.draw.pick(cluster.plugged())
    cluster.add("Deployment", {}, pods=1, nodes=[name], spec={"runtimeClassName": "nvidia"})


@surprise(74, "a DaemonSet of metrics that tolerates everything")
def metrics(cluster: DrawnCluster) -> None:
    spec = {"tolerations": [{"operator": "Exists"}]}
    cluster.add("DaemonSet", {}, nodes=[*cluster.nodes], spec=spec)


@surprise(75, "a pod of a priority that evicts others", rig=False)
def preempts(cluster: DrawnCluster) -> None:
    metadata = {"name": "urgent"}
    group = "scheduling.k8s.io/v1"
    made = {"apiVersion": group, "kind": "PriorityClass", "metadata": metadata, "value": 1000}
    cluster.objects.append(made)
    spec = {"priorityClassName": "urgent", "priority": 1000}
    cluster.add("Deployment", {GPU: 1}, pods=1, spec=spec)


@surprise(76, "a pod that has an hour to end", rig=False)
def slow_end(cluster: DrawnCluster) -> None:
    cluster.add("Deployment", {GPU: 1}, pods=1, spec={"terminationGracePeriodSeconds": 3600})


@surprise(77, "an emptyDir, for which drain wants a flag")
def empty_directory(cluster: DrawnCluster) -> None:
    volume = {"name": "scratch", "emptyDir": {}}
    cluster.add("Deployment", {GPU: 1}, pods=1, spec={"volumes": [volume]})


@surprise(78, "annotations that keep autoscalers from evicting")
def not_evicted(cluster: DrawnCluster) -> None:
    notes = {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    }
    cluster.add("Deployment", {GPU: 1}, pods=1, annotations=notes)


@surprise(83, "a pod of the system with a GPU", rig=False)
def of_system(cluster: DrawnCluster) -> None:
    if "kube-system" not in cluster.spaces:
        cluster.add_space("kube-system")
    cluster.add("Deployment", {GPU: 1}, pods=1, space="kube-system")


@surprise(84, "a pod with a claim of its own beside a request", rig=False)
def own_claim(cluster: DrawnCluster) -> None:
    space, name = cluster.any_space(), cluster.next_name("own")
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}
    cluster.objects.append(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "namespace": space},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
    )
    at = cluster.add_node("own", plugins={}, devices={"gpu": 8})
    cluster.publish(at, 8)
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}]}
    main = container({})
    main["resources"]["claims"] = [{"name": "gpu"}]
    spec["containers"] = [main]
    cluster.add("Deployment", {}, space=space, pods=1, nodes=[at], spec=spec)


@surprise(85, "a pod that asks for more GPUs than any node has")
def too_many(cluster: DrawnCluster) -> None:
    cluster.add("StatefulSet", {GPU: 16}, pods=1, nodes=[""])


@surprise(88, "a pod of another scheduler", rig=False)
def other_scheduler(cluster: DrawnCluster) -> None:
    cluster.add("Deployment", {GPU: 1}, pods=1, spec={"schedulerName": "second-scheduler"})
