"""The findings of this package."""
# house: long module, a table of prose

from dra.finding import Code, Codes, Severity

DEVICE_UNKNOWN = Code(
    name="DeviceUnknown",
    severity=Severity.WARNING,
    text="A container asks for a resource that no dialect knows. It stays as it is.",
    example="spec.containers[0].resources.limits[example.com/npu]: nobody here knows it",
    remedy="Say in legacy.renames which known resource it stands for, or leave it to its plugin.",
)
AMOUNT_UNREADABLE = Code(
    name="AmountUnreadable",
    severity=Severity.WARNING,
    text=(
        "The amount of a device is not a whole number that can be read. Nothing of the pod is "
        "translated, so that no part of what it asks is lost."
    ),
    example="spec.containers[0].resources.limits[nvidia.com/gpu]: $GPUS is no whole number",
    remedy="Write a whole number.",
)
AMOUNTS_DISAGREE = Code(
    name="AmountsDisagree",
    severity=Severity.ERROR,
    text="Limit and request of a device differ; Kubernetes does not accept that of any device.",
    example="spec.containers[0].resources: nvidia.com/gpu has limit 2 and request 1",
    remedy="Write the same amount in both, or the limit alone.",
)
REQUESTS_ONLY = Code(
    name="RequestsOnly",
    severity=Severity.INFO,
    text="A device stands in requests without a limit; as a device plugin's it would be refused.",
    example="spec.containers[0].resources.requests[nvidia.com/gpu]: there is no limit of it",
    remedy="Write the limit, if the pod shall also run untranslated.",
)
AMOUNT_REFUSED = Code(
    name="AmountRefused",
    severity=Severity.ERROR,
    text="An amount breaks a rule of the dialect it is written in; that project refuses it too.",
    example="limits[nvidia.com/gpumem-percentage]: 120 is not a percentage from 0 to 100",
    remedy="Write an amount that the rule allows.",
)
AMOUNT_SUSPICIOUS = Code(
    name="AmountSuspicious",
    severity=Severity.WARNING,
    text="An amount can be read, and probably means something else than what it says.",
    example="limits[nvidia.com/gpu]: 100 GPUs in one container are asked for",
    remedy="Check the unit; counts are whole devices.",
)
REQUEST_INCOMPLETE = Code(
    name="RequestIncomplete",
    severity=Severity.ERROR,
    text="The resources do not make a request in their dialect: something is missing or too much.",
    example="spec.containers: koordinator.sh/gpu-core alone is no request",
    remedy="Complete the request, or take away what does not belong to it.",
)
REQUESTS_CONTRADICT = Code(
    name="RequestsContradict",
    severity=Severity.ERROR,
    text="Two things in the pod say the same differently, or exclude each other.",
    example="metadata.annotations[gpu-fraction]: a whole GPU is asked for as well",
    remedy="Keep one of the two.",
)
DIALECTS_MIXED = Code(
    name="DialectsMixed",
    severity=Severity.ERROR,
    text="A pod asks for GPUs in dialects of projects that do not know of each other.",
    example="spec: GPUs are asked for in the dialects of HAMi and Koordinator",
    remedy="Write everything in one dialect.",
)
ANNOTATION_UNREADABLE = Code(
    name="AnnotationUnreadable",
    severity=Severity.ERROR,
    text="An annotation or label that decides about devices cannot be read.",
    example="metadata.annotations[scheduling.koordinator.sh/device-allocate-hint]: no JSON at 1:17",
    remedy="Correct it; comments are not allowed in JSON.",
)
WORD_UNKNOWN = Code(
    name="WordUnknown",
    severity=Severity.ERROR,
    text="An annotation or label has a value that its dialect does not have.",
    example="metadata.annotations[nvidia.com/vgpu-mode]: mgi is none of hami-core, mig, mps",
    remedy="Write one of the values it may have.",
)
NAME_MISSPELT = Code(
    name="NameMisspelt",
    severity=Severity.ERROR,
    text="A resource is not one of its dialect's, and looks like one of them.",
    example="limits[koordinator.sh/gpu-shared]: the resource is koordinator.sh/gpu.shared",
    remedy="Write the name of the resource.",
)
NAME_OLD = Code(
    name="NameOld",
    severity=Severity.INFO,
    text="A resource is written by an older name, and is read as what it is called today.",
    example="limits[kubernetes.io/gpu-core]: read as koordinator.sh/gpu-core",
    remedy="Write today's name.",
)
REPLICAS_ARE_ONE = Code(
    name="ReplicasAreOne",
    severity=Severity.WARNING,
    text=(
        "Several replicas of a shared GPU are asked for. They never were several GPUs nor a larger "
        "share, so one share is asked for."
    ),
    example="limits[nvidia.com/gpu.shared]: 2 replicas are read as one share",
    remedy="Ask for one, or for whole GPUs.",
)
VENDOR_WITHOUT_DRIVER = Code(
    name="VendorWithoutDriver",
    severity=Severity.WARNING,
    text="The device is known, and no DRA driver for it is. The request stays as it is.",
    example="limits[huawei.com/Ascend910B4]: no DRA driver for it is known",
    remedy="Leave it to its plugin, or configure a target for it by legacy.renames.",
)
HINT_LOST = Code(
    name="HintLost",
    severity=Severity.WARNING,
    text="A wish of the dialect has no counterpart in DRA, and is not carried over.",
    example="metadata.annotations[hami.io/gpu-scheduler-policy]: binpack has no counterpart",
    remedy="Take the annotation away if nothing depends on it.",
)
HINT_EMPTY = Code(
    name="HintEmpty",
    severity=Severity.INFO,
    text="An annotation or value of the dialect has no effect there either, and is dropped.",
    example="metadata.annotations[...device-allocate-hint]: exclusivePolicy PCIeLevel does nothing",
    remedy="Take it away.",
)
CONTAINER_WITHOUT_CLAIM = Code(
    name="ContainerWithoutClaim",
    severity=Severity.WARNING,
    text=(
        "In this dialect every container of the pod saw the devices; now only those do that asked "
        "for some."
    ),
    example="spec.containers[1]: container logger asked for no device and gets none",
    remedy="If the container needs the devices, let it ask for them too.",
)
MEANING_CHANGES = Code(
    name="MeaningChanges",
    severity=Severity.WARNING,
    text="What is asked for has a counterpart that behaves otherwise.",
    example="limits[rdma/hca_a]: a token gave all network devices, colocation with other pods",
    remedy="Check that the pod runs with what it gets.",
)
LABEL_KEPT = Code(
    name="LabelKept",
    severity=Severity.WARNING,
    text=(
        "A node label about devices cannot be said of a device, and stays. Where the plugin's "
        "labels are gone, no node has it."
    ),
    example="spec.nodeSelector[nvidia.com/gpu.count]: 8 is a fact about nodes, not devices",
    remedy="Take it away, or label the nodes yourself.",
)
LABEL_DROPPED = Code(
    name="LabelDropped",
    severity=Severity.WARNING,
    text="A label about devices is dropped, because no attribute of a device is known for it.",
    example="metadata.annotations[...]: type=fakeW is mapped to no attribute",
    remedy="Map it in legacy.labels.",
)
LABEL_IMPOSSIBLE = Code(
    name="LabelImpossible",
    severity=Severity.ERROR,
    text="The pod asks for a device and for nodes that have none of it, so no node will do.",
    example="spec.affinity: nvidia.com/gpu.memory Gt 16Gi can never hold, labels are whole numbers",
    remedy="Correct the term or take it away.",
)
LABEL_LOOSE = Code(
    name="LabelLoose",
    severity=Severity.WARNING,
    text="A node label becomes a condition on devices that is not exactly the same.",
    example="spec.nodeSelector[nvidia.com/gpu.product]: A100-SXM4-40GB also with NVIDIA in front",
    remedy="Check that the devices chosen are the ones meant.",
)
SCHEDULER_LEFT = Code(
    name="SchedulerLeft",
    severity=Severity.WARNING,
    text=(
        "The pod's scheduler belongs to the dialect and knows no claims, so the pod goes to the "
        "default scheduler. Its queues, quotas and gangs do not follow."
    ),
    example="spec.schedulerName: koord-scheduler is taken away",
    remedy="See what else the scheduler did for the pod.",
)
SCHEDULER_KEPT = Code(
    name="SchedulerKept",
    severity=Severity.WARNING,
    text=(
        "The pod's scheduler stays; its support of claims may have to be switched on, and its "
        "queues counted the old resource names."
    ),
    example="spec.schedulerName: volcano stays",
    remedy="Switch its support of DRA on, and map device classes in its queues.",
)
SCHEDULER_UNUSABLE = Code(
    name="SchedulerUnusable",
    severity=Severity.ERROR,
    text="The pod's scheduler allocates devices by itself and cannot be replaced for this request.",
    example="spec.schedulerName: tensor-fusion-scheduler serves remote GPUs",
    remedy="Leave the pod to that scheduler, or ask for local GPUs.",
)
POD_REFUSED = Code(
    name="PodRefused",
    severity=Severity.ERROR,
    text="The dialect's project refuses such a pod, whatever amounts it asks for.",
    example="spec.containers[0]: HAMi gives no GPU share to a privileged container",
    remedy="Take away what is refused.",
)
ALREADY_PLACED = Code(
    name="AlreadyPlaced",
    severity=Severity.WARNING,
    text="The devices of the pod are chosen already, by its own scheduler; it is left alone.",
    example="metadata.annotations[scheduling.koordinator.sh/device-allocated]: minor 0 of gpu",
    remedy="Translate the workload it comes from.",
)
INIT_ADDS_UP = Code(
    name="InitAddsUp",
    severity=Severity.WARNING,
    text=(
        "An init container asks for other devices than the containers after it, which cannot be "
        "the same ones; the pod holds both at once."
    ),
    example="spec.initContainers[0]: 5000 MiB, and no container later asks for as much",
    remedy="Let the init container ask for no more than one of the containers.",
)
INIT_SEES_MORE = Code(
    name="InitSeesMore",
    severity=Severity.INFO,
    text="An init container shares the devices of a later container, and sees more than it asked.",
    example="spec.initContainers[0]: it asked for 1 device and sees the 2 of container main",
    remedy="Nothing has to be done.",
)
NETWORK_UNKNOWN = Code(
    name="NetworkUnknown",
    severity=Severity.INFO,
    text=(
        "A secondary network is named whose resource is not known here. If it takes devices, they "
        "are not asked for."
    ),
    example="metadata.annotations[k8s.v1.cni.cncf.io/networks]: default/sriov-a is not known",
    remedy="Say in legacy.networks from which resource the network takes its interfaces.",
)

CODES = Codes(
    "translate",
    [
        DEVICE_UNKNOWN,
        AMOUNT_UNREADABLE,
        AMOUNTS_DISAGREE,
        REQUESTS_ONLY,
        AMOUNT_REFUSED,
        AMOUNT_SUSPICIOUS,
        REQUEST_INCOMPLETE,
        REQUESTS_CONTRADICT,
        DIALECTS_MIXED,
        ANNOTATION_UNREADABLE,
        WORD_UNKNOWN,
        NAME_MISSPELT,
        NAME_OLD,
        REPLICAS_ARE_ONE,
        VENDOR_WITHOUT_DRIVER,
        HINT_LOST,
        HINT_EMPTY,
        CONTAINER_WITHOUT_CLAIM,
        MEANING_CHANGES,
        LABEL_KEPT,
        LABEL_DROPPED,
        LABEL_IMPOSSIBLE,
        LABEL_LOOSE,
        SCHEDULER_LEFT,
        SCHEDULER_KEPT,
        SCHEDULER_UNUSABLE,
        POD_REFUSED,
        ALREADY_PLACED,
        INIT_ADDS_UP,
        INIT_SEES_MORE,
        NETWORK_UNKNOWN,
    ],
)
