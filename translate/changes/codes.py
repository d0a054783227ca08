"""The findings of the changes to a pod beside its devices."""

from dra.finding import Code, Codes, Severity

TOLERATION_ADDED = Code(
    name="TolerationAdded",
    severity=Severity.INFO,
    text=(
        "The API server tolerates for a pod what nodes of an extended resource are tainted with, "
        "and no longer sees the resource; the toleration is written out."
    ),
    example="spec.tolerations: nvidia.com/gpu is tolerated",
    remedy="Nothing has to be done.",
)
VISIBLE_DROPPED = Code(
    name="VisibleDevicesDropped",
    severity=Severity.INFO,
    text="A container that gets its devices by a claim must not choose them by its environment.",
    example="spec.containers[0].env[1]: NVIDIA_VISIBLE_DEVICES is taken away",
    remedy="Nothing has to be done.",
)
VISIBLE_WITHOUT_CLAIM = Code(
    name="VisibleWithoutClaim",
    severity=Severity.WARNING,
    text=(
        "A container sees GPUs by its environment, without asking for any: under the runtime class "
        "of the vendor those of other pods as well."
    ),
    example="spec.containers[1].env[0]: NVIDIA_VISIBLE_DEVICES is all, and it asks for no GPU",
    remedy="Let the container ask for what it uses, or take the variable away.",
)
NAMED_DEVICES = Code(
    name="DevicesByName",
    severity=Severity.WARNING,
    text="An environment variable names devices by number or name; a claim gives other ones.",
    example="spec.containers[0].env[0]: NCCL_IB_HCA is =mlx5_0,mlx5_1",
    remedy="Take the variable away, or write a prefix such as mlx5.",
)
RUNTIME_CLASS_KEPT = Code(
    name="RuntimeClassKept",
    severity=Severity.INFO,
    text="Devices of a claim need no runtime class; it stays, as other things may rely on it.",
    example="spec.runtimeClassName: nvidia stays",
    remedy="Take it away when nothing else needs it.",
)
NOT_ENFORCED = Code(
    name="AllocationNotEnforced",
    severity=Severity.WARNING,
    text="A privileged container sees every device of its node, whatever it is allocated.",
    example="spec.containers[0]: the container is privileged and gets devices by a claim",
    remedy="Take the privilege away; RDMA needs the capability IPC_LOCK only.",
)
HOST_RDMA = Code(
    name="RdmaByHostAccess",
    severity=Severity.WARNING,
    text=(
        "A container reaches RDMA devices by the host's files, without asking for any. There is "
        "nothing to translate, and nobody allocates what it uses."
    ),
    example="spec.volumes[0].hostPath.path: /dev/infiniband is mounted, and no NIC is asked for",
    remedy="Ask for a network device, and take the volume and the privilege away.",
)
QUEUE_COUNTS = Code(
    name="QueueCountsNames",
    severity=Severity.WARNING,
    text=(
        "The pod waits in a queue whose quota counts extended resources; a claim is free of charge "
        "there unless the queue maps device classes."
    ),
    example="metadata.labels[kueue.x-k8s.io/queue-name]: the queue counted nvidia.com/gpu",
    remedy="Map the device classes of the claim in the queue's configuration.",
)
DUAL_ADVERTISED = Code(
    name="DualAdvertised",
    severity=Severity.WARNING,
    text=(
        "Nodes hand out the same devices by a plugin and by DRA, so one could go out twice. The "
        "pod keeps off them, and what lies idle there is lost to it."
    ),
    example="spec.affinity.nodeAffinity: nvidia.com/gpu is advertised twice on 2 nodes",
    remedy="Take the device plugin off those nodes, or the DRA driver.",
)
DUAL_NODES_AVOIDED = Code(
    name="DualNodesAvoided",
    severity=Severity.INFO,
    text=(
        "A plugin serves the name somewhere. No node offers the same devices by DRA as well; "
        "should one come to, the pod keeps off it."
    ),
    example="spec.affinity.nodeAffinity: a plugin serves nvidia.com/gpu on 3 nodes",
    remedy="Nothing has to be done.",
)
DUAL_HELD = Code(
    name="DualDevicesHeld",
    severity=Severity.WARNING,
    text=(
        "No plugin serves the name any more, but nodes are still labelled for it: pods hold what "
        "it gave them, or it only restarts. DRA knows nothing of that, so the pod keeps off them."
    ),
    example="spec.affinity.nodeAffinity: devices of gpu.nvidia.com on 2 nodes may still be held",
    remedy="Let the old pods end, or drain the nodes: the label goes with the last of them.",
)
SCHEDULER_OURS = Code(
    name="SchedulerOurs",
    severity=Severity.INFO,
    text="In bridge placement a pod goes to the scheduler that asks our allocator.",
    example="spec.schedulerName: drawbridge",
    remedy="Nothing has to be done.",
)

CODES = Codes(
    "translate: changes to the pod",
    [
        TOLERATION_ADDED,
        VISIBLE_DROPPED,
        VISIBLE_WITHOUT_CLAIM,
        NAMED_DEVICES,
        RUNTIME_CLASS_KEPT,
        NOT_ENFORCED,
        HOST_RDMA,
        QUEUE_COUNTS,
        DUAL_ADVERTISED,
        DUAL_NODES_AVOIDED,
        DUAL_HELD,
        SCHEDULER_OURS,
    ],
)
