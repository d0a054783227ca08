"""The findings about what becomes of a pod: decisions, and what changes beside its devices."""
# house: long module, a table of prose

from dra.finding import Code, Codes, Severity

LEFT_TO_CLASS = Code(
    name="LeftToClass",
    severity=Severity.INFO,
    text="A DeviceClass serves the name as it stands, so the request needs no translation.",
    example="spec.containers[0]: nvidia.com/gpu is served by class gpu.nvidia.com",
    remedy="Say decisions.nativeExtendedNames: translate to have a claim all the same.",
)
CLASS_WOULD_SERVE = Code(
    name="ClassWouldServe",
    severity=Severity.INFO,
    text="A request is translated that a DeviceClass would have served as it stood.",
    example="spec.containers[0]: class gpu.nvidia.com would have served nvidia.com/gpu",
    remedy="Say decisions.nativeExtendedNames: leave to leave such requests alone.",
)
LEFT_TO_PLUGIN = Code(
    name="LeftToPlugin",
    severity=Severity.WARNING,
    text="A request stays with its device plugin, because a claim would give something worth less.",
    example="spec.containers[0]: rdma/hca_shared_devices_a stays with its device plugin",
    remedy="Nothing while the plugin stays; take the plugin away to have it translated.",
)
LEFT_AS_IT_IS = Code(
    name="LeftAsItIs",
    severity=Severity.WARNING,
    text="A claim cannot say what is asked for; it stays with who serves it.",
    example="spec.containers[0]: nvidia.com/gpumem stays with the plugin that serves it",
    remedy="See the finding beside it for what keeps it from being said.",
)
NOTHING_SAYS_IT = Code(
    name="NothingSaysIt",
    severity=Severity.ERROR,
    text="What is asked for has no counterpart in DRA.",
    example="spec.containers[0]: koordinator.sh/fpga becomes nothing: no DRA driver is known",
    remedy="Run the pod where a device plugin serves the name, or take the request away.",
)
LOST_ALWAYS = Code(
    name="LostInClaims",
    severity=Severity.WARNING,
    text="A property of what is asked for is lost, whichever driver serves the claim.",
    example="spec.containers[0]: intel.com/sriov loses environment in a claim",
    remedy="Check that the pod does without it.",
)
SERVER_UNKNOWN = Code(
    name="ServerUnknown",
    severity=Severity.WARNING,
    text="Nothing is known of the cluster, so a legacy name counts as served by a device plugin.",
    example="spec: nvidia.com/gpu counts as served by a device plugin",
    remedy="Give the cluster with --context or --cluster, or its facts with --facts.",
)
POD_BOUND = Code(
    name="PodBound",
    severity=Severity.WARNING,
    text="The pod has a node already, so nobody would allocate a claim of it; it is left alone.",
    example="spec.nodeName: the pod is on node worker-1",
    remedy="Take nodeName away, or translate the workload it comes from.",
)
POD_MIRRORED = Code(
    name="PodMirrored",
    severity=Severity.WARNING,
    text="The pod mirrors a static one of its node, which cannot have claims; it is left alone.",
    example="metadata.annotations[kubernetes.io/config.mirror]: the pod is a mirror",
    remedy="Make the static pod a workload of the cluster.",
)
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
PLACE_TAKEN = Code(
    name="PlaceTaken",
    severity=Severity.ERROR,
    text="A place where claims are to be added holds something else than a list of claims.",
    example="spec.resourceClaims: it is no list",
    remedy="Correct the pod.",
)
ELSEWHERE = Code(
    name="RequestNotInPod",
    severity=Severity.WARNING,
    text=(
        "A device is asked for in an object, or at a place of it, that is not known as a pod's. It "
        "stays as it is."
    ),
    example="spec.trainer.resourcesPerNode.limits[nvidia.com/gpu]: TrainJob keeps no pod here",
    remedy="Let the pods be translated when they are created, or translate what makes them.",
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
QUOTA_COUNTS = Code(
    name="QuotaCountsNames",
    severity=Severity.WARNING,
    text=(
        "A quota counts an extended resource, which pods that are translated no longer ask for: "
        "they are free of charge there."
    ),
    example="spec.hard[requests.nvidia.com/gpu]: it does not count pods that are translated",
    remedy="Count device classes as well: in a ResourceQuota, their entries for claims.",
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
TEMPLATE_DIFFERS = Code(
    name="TemplateInInputDiffers",
    severity=Severity.ERROR,
    text=(
        "A template among the input has the name that its content would have, and another content."
    ),
    example="ResourceClaimTemplate/team/drawbridge-4f..: spec differs from what a pod asks",
    remedy="Take it out of the input; it is made again.",
)

CODES = Codes(
    "translate: what becomes of a pod",
    [
        LEFT_TO_CLASS,
        CLASS_WOULD_SERVE,
        LEFT_TO_PLUGIN,
        LEFT_AS_IT_IS,
        NOTHING_SAYS_IT,
        LOST_ALWAYS,
        SERVER_UNKNOWN,
        POD_BOUND,
        POD_MIRRORED,
        TOLERATION_ADDED,
        VISIBLE_DROPPED,
        VISIBLE_WITHOUT_CLAIM,
        NAMED_DEVICES,
        RUNTIME_CLASS_KEPT,
        NOT_ENFORCED,
        PLACE_TAKEN,
        ELSEWHERE,
        HOST_RDMA,
        QUEUE_COUNTS,
        QUOTA_COUNTS,
        DUAL_ADVERTISED,
        DUAL_NODES_AVOIDED,
        DUAL_HELD,
        TEMPLATE_DIFFERS,
        SCHEDULER_OURS,
    ],
)
