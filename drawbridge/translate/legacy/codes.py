"""Finding codes of the legacy dialects."""

from drawbridge.finding import Activity, Codes, Severity, Trait

CODES = Codes(Activity.TRANSLATE)

DEVICE_UNKNOWN = CODES.define(
    "DeviceUnknown",
    Severity.WARNING,
    text=(
        "A container requests a device resource that Drawbridge does not know. The request stays "
        "unchanged."
    ),
    example=(
        "spec.containers[0].resources.limits[example.com/npu]: example.com/npu: 1 is not a "
        "known device resource"
    ),
    remedy=(
        "Name its DeviceClass in `targets[].resources`, map it to a known resource in "
        "`legacy.renames`, or keep its device plugin."
    ),
)
AMOUNT_UNREADABLE = CODES.define(
    "AmountUnreadable",
    Severity.WARNING,
    text=(
        "The amount of a device resource is not a quantity, but for example a placeholder. The "
        "pod is not translated, so that no part of its request is lost."
    ),
    example=(
        "spec.containers[0].resources.limits[nvidia.com/gpu]: nvidia.com/gpu must be a "
        "non-negative integer, not $GPUS"
    ),
    remedy="Set the amount to an integer.",
)
AMOUNTS_DISAGREE = CODES.define(
    "AmountsDisagree",
    Severity.ERROR,
    text=(
        "Limit and request of a device resource differ. Kubernetes rejects this for extended "
        "resources."
    ),
    example="spec.containers[0].resources: nvidia.com/gpu has the limit 2 but the request 1",
    remedy="Set limit and request to the same amount, or set the limit only.",
)
REQUESTS_ONLY = CODES.define(
    "RequestsOnly",
    Severity.INFO,
    text=(
        "A device resource has a request but no limit. The API server rejects such a pod if "
        "it is not translated."
    ),
    example=(
        "spec.containers[0].resources.requests[nvidia.com/gpu]: nvidia.com/gpu has a request "
        "but no limit; the request is used"
    ),
    remedy="Add the limit if the pod must also run untranslated.",
)
AMOUNT_REFUSED = CODES.define(
    "AmountRefused",
    Severity.ERROR,
    text=(
        "An amount violates a rule of its dialect, or is not a non-negative integer. The project "
        "of the dialect, or the API server, rejects it as well."
    ),
    example=(
        "spec.containers[0].resources.limits[nvidia.com/gpumem-percentage]: "
        "nvidia.com/gpumem-percentage must be from 0 to 100, not 120"
    ),
    remedy="Set an amount that the dialect allows.",
)
AMOUNT_SUSPICIOUS = CODES.define(
    "AmountSuspicious",
    Severity.WARNING,
    text="An amount is valid but implausible. It probably has another unit.",
    example=(
        "spec.containers[0].resources.limits[nvidia.com/gpu]: nvidia.com/gpu requests 100 "
        "whole devices, but no machine has more than 16"
    ),
    remedy="Check the unit of the amount. Counts are numbers of whole devices.",
)
REQUEST_INCOMPLETE = CODES.define(
    "RequestIncomplete",
    Severity.ERROR,
    text=(
        "The resources are not a valid combination in their dialect: one is missing, or one "
        "does not belong to it."
    ),
    example=(
        "spec.containers[0].resources.limits[koordinator.sh/gpu-core]: "
        "koordinator.sh/gpu-core: not a valid GPU request"
    ),
    remedy="Add the missing resource, or remove the one that does not belong to the request.",
)
REQUESTS_CONTRADICT = CODES.define(
    "RequestsContradict",
    Severity.ERROR,
    text="Two fields of the pod contradict or exclude each other.",
    example=(
        "metadata.annotations[gpu-fraction]: gpu-fraction and nvidia.com/gpu exclude each other"
    ),
    remedy="Remove one of the two.",
)
DIALECTS_MIXED = CODES.define(
    "DialectsMixed",
    Severity.ERROR,
    text=(
        "A pod requests GPUs in the dialects of several projects, each of which allocates "
        "GPUs by itself."
    ),
    example="spec: the pod requests devices in the dialects of HAMi and Koordinator",
    remedy="Use one dialect for the whole pod.",
)
ANNOTATION_UNREADABLE = CODES.define(
    "AnnotationUnreadable",
    Severity.ERROR,
    text="An annotation or label that affects device requests cannot be parsed.",
    example=(
        "metadata.annotations[scheduling.koordinator.sh/device-allocate-hint]: invalid JSON "
        "at line 1, column 17: Expecting value"
    ),
    remedy="Correct the value. JSON does not allow comments.",
)
WORD_UNKNOWN = CODES.define(
    "WordUnknown",
    Severity.ERROR,
    text="An annotation or label has a value that its dialect does not define.",
    example=(
        "metadata.annotations[nvidia.com/vgpu-mode]: the value must be one of hami-core, "
        "mig, mps, not mgi"
    ),
    remedy="Set one of the allowed values.",
)
NAME_MISSPELT = CODES.define(
    "NameMisspelt",
    Severity.ERROR,
    text="A resource name does not exist in its dialect, but is similar to one that does.",
    example=(
        "spec.containers[0].resources.limits[koordinator.sh/gpu-shared]: "
        "koordinator.sh/gpu-shared does not exist; use koordinator.sh/gpu.shared"
    ),
    remedy="Correct the name of the resource.",
)
NAME_OLD = CODES.define(
    "NameOld",
    Severity.INFO,
    text="A resource has an older name. It is translated like the resource with the current name.",
    example=(
        "spec.containers[0].resources.limits[kubernetes.io/gpu-core]: kubernetes.io/gpu-core "
        "is now named koordinator.sh/gpu-core"
    ),
    remedy="Use the current name.",
)
REPLICAS_ARE_ONE = CODES.define(
    "ReplicasAreOne",
    Severity.WARNING,
    Trait.ONLY_WHEN_TRANSLATED,
    text=(
        "A container requests several replicas of shared GPUs. Several replicas do not mean "
        "several GPUs or a larger share, so the claim requests one share."
    ),
    example=(
        "spec.containers[0].resources.limits[nvidia.com/gpu.shared]: nvidia.com/gpu.shared: "
        "2 replicas count as one share, because they are not 2 different GPUs"
    ),
    remedy="Request one replica, or request whole GPUs.",
)
VENDOR_WITHOUT_DRIVER = CODES.define(
    "VendorWithoutDriver",
    Severity.WARNING,
    text=(
        "The device resource is known, but Drawbridge has no translation of its own for it. The "
        "request stays unchanged. If a DRA driver for such devices is known, the message names it."
    ),
    example=(
        "spec.containers[0].resources.limits[mthreads.com/vgpu]: no known DRA driver "
        "serves mthreads.com/vgpu"
    ),
    remedy="Keep the device plugin, or configure a target that has the name in `resources`.",
)
HINT_LOST = CODES.define(
    "HintLost",
    Severity.WARNING,
    Trait.ONLY_WHEN_TRANSLATED,
    text="A preference of the dialect has no equivalent in DRA and is not carried over.",
    example=(
        "metadata.annotations[hami.io/gpu-scheduler-policy]: binpack is not carried over, "
        "because a claim has no scoring policy"
    ),
    remedy="Remove the annotation if nothing depends on it.",
)
HINT_EMPTY = CODES.define(
    "HintEmpty",
    Severity.INFO,
    text="An annotation or value has no effect in its own dialect and is dropped.",
    example=(
        "metadata.annotations[scheduling.koordinator.sh/device-allocate-hint]: "
        "exclusivePolicy PCIeLevel has no effect; Koordinator ignores it too"
    ),
    remedy="Remove the annotation or value.",
)
RESTRICTION_LOST = CODES.define(
    "RestrictionLost",
    Severity.WARNING,
    Trait.ONLY_WHEN_TRANSLATED,
    text=(
        "The pod restricts which devices it can get, but the claim cannot carry the restriction, "
        "so the pod may get other devices."
    ),
    example=(
        "metadata.annotations[tensor-fusion.ai/gpupool]: tensor-fusion.ai/gpupool is shared, "
        "but DRA has no pools of GPUs"
    ),
    remedy="Restrict the pod by product, by UUID, or by a label of its nodes.",
)
CONTAINER_WITHOUT_CLAIM = CODES.define(
    "ContainerWithoutClaim",
    Severity.WARNING,
    Trait.ONLY_WHEN_TRANSLATED,
    text=(
        "In this dialect, every container of the pod gets all devices of the pod. After the "
        "translation, only containers that request devices get them."
    ),
    example=(
        "spec.containers[1]: container logger requests no devices and gets none; in this "
        "dialect every container of the pod got all devices of the pod"
    ),
    remedy="Add the request to the container if it needs the devices.",
)
MEANING_CHANGES = CODES.define(
    "MeaningChanges",
    Severity.WARNING,
    Trait.ONLY_WHEN_TRANSLATED,
    text="The request has an equivalent that behaves differently.",
    example=(
        "spec.containers[0].resources.limits[gpu.intel.com/xe]: the pod gets 2 different "
        "GPUs; a plugin that shares GPUs could allocate the same GPU 2 times"
    ),
    remedy="Check that the pod works with the new behavior.",
)
LABEL_KEPT = CODES.define(
    "LabelKept",
    Severity.WARNING,
    Trait.ONLY_WHEN_TRANSLATED,
    text=(
        "A node label about devices, or a topology key, cannot be expressed as a condition on "
        "devices, so the pod keeps it. When the device plugin is removed, no node has the label."
    ),
    example=(
        "spec.nodeSelector[nvidia.com/gpu.count]: no driver publishes what nvidia.com/gpu.count "
        "says as a device attribute, so the pod keeps the condition nvidia.com/gpu.count In 8"
    ),
    remedy="Remove the condition from the pod, or keep the label on the nodes without the plugin.",
)
LABEL_DROPPED = CODES.define(
    "LabelDropped",
    Severity.WARNING,
    Trait.ONLY_WHEN_TRANSLATED,
    text="A device label is dropped, because it is not mapped to a device attribute.",
    example=(
        "metadata.annotations[scheduling.koordinator.sh/device-allocate-hint]: dropped the "
        "label type of rdma devices; it is not mapped to an attribute"
    ),
    remedy="Map the label to an attribute in `legacy.labels`.",
)
LABEL_IMPLIED = CODES.define(
    "LabelImplied",
    Severity.INFO,
    Trait.ONLY_WHEN_TRANSLATED,
    text="A condition on a node label is removed, because every device of the claim satisfies it.",
    example=(
        "spec.nodeSelector[nvidia.com/gpu.present]: nvidia.com/gpu.present In true: every node "
        "with a device of the claim satisfies it"
    ),
    remedy="No action is needed.",
)
LABEL_IMPOSSIBLE = CODES.define(
    "LabelImpossible",
    Severity.ERROR,
    text="The pod requests a device but selects nodes that cannot have it, so no node matches.",
    example=(
        "spec.nodeSelector[nvidia.com/gpu.present]: nvidia.com/gpu.present In false: the pod "
        "requests a GPU but selects nodes without GPUs"
    ),
    remedy="Correct or remove the term.",
)
LABEL_LOOSE = CODES.define(
    "LabelLoose",
    Severity.WARNING,
    Trait.ONLY_WHEN_TRANSLATED,
    text="A node label becomes a condition on devices that is not exactly equivalent.",
    example=(
        "spec.nodeSelector[nvidia.com/gpu.product]: nvidia.com/gpu.product In "
        "A100-SXM4-40GB: the product name also matches with the prefix NVIDIA-"
    ),
    remedy="Check that the condition matches the intended devices.",
)
SCHEDULER_LEFT = CODES.define(
    "SchedulerLeft",
    Severity.WARNING,
    Trait.ONLY_WHEN_TRANSLATED,
    text=(
        "The pod's scheduler belongs to the dialect and does not support claims, so the pod "
        "moves to another scheduler. The queues, quotas and gangs of the previous scheduler "
        "no longer apply."
    ),
    example=(
        "spec.schedulerName: koord-scheduler does not allocate resource claims, so it is removed"
    ),
    remedy="Check which other features of the scheduler the pod needs.",
)
SCHEDULER_KEPT = CODES.define(
    "SchedulerKept",
    Severity.WARNING,
    Trait.ONLY_WHEN_TRANSLATED,
    text=(
        "The pod keeps its scheduler. Support for claims may have to be enabled in the "
        "scheduler, and its queues count the previous resource names."
    ),
    example="spec.schedulerName: the pod keeps the scheduler volcano",
    remedy="Enable DRA in the scheduler, and map device classes in its queues.",
)
SCHEDULER_UNUSABLE = CODES.define(
    "SchedulerUnusable",
    Severity.ERROR,
    text="The pod's scheduler allocates devices itself and cannot be replaced for this request.",
    example=(
        "spec.schedulerName: tensor-fusion-scheduler allocates GPUs itself and does not "
        "support claims"
    ),
    remedy="Run the pod with that scheduler without translation, or request local GPUs.",
)
POD_REFUSED = CODES.define(
    "PodRefused",
    Severity.ERROR,
    text="The project of the dialect rejects such a pod, regardless of the requested amounts.",
    example=(
        "spec.containers[0]: container main is privileged, and HAMi does not allocate GPUs "
        "to pods with a privileged container"
    ),
    remedy="Remove the field that is rejected.",
)
ALREADY_PLACED = CODES.define(
    "AlreadyPlaced",
    Severity.WARNING,
    text="The pod's own scheduler has already allocated its devices, so the pod is not translated.",
    example=(
        "metadata.annotations[scheduling.koordinator.sh/device-allocated]: Koordinator has "
        "already allocated the devices of the pod"
    ),
    remedy="Translate the workload that created the pod.",
)
INIT_ADDS_UP = CODES.define(
    "InitAddsUp",
    Severity.WARNING,
    Trait.ONLY_WHEN_TRANSLATED,
    text=(
        "An init container requests other devices than the containers after it, or shares of "
        "more GPUs. It cannot share their devices, so the pod holds the devices of both at the "
        "same time."
    ),
    example=(
        "spec.initContainers[0]: init container fetch requests devices (nvidia.com/gpumem) "
        "that it cannot share with a later container, so the pod holds the devices of both at "
        "the same time"
    ),
    remedy="Reduce the request of the init container to that of a later container.",
)
INIT_SEES_MORE = CODES.define(
    "InitSeesMore",
    Severity.INFO,
    Trait.ONLY_WHEN_TRANSLATED,
    text=(
        "An init container shares the devices of a later container and sees more than it requests."
    ),
    example=(
        "spec.initContainers[0]: init container fetch shares the devices of main and sees "
        "more than it requests (nvidia.com/gpu)"
    ),
    remedy="No action is needed.",
)
SHARE_ENLARGED = CODES.define(
    "ShareEnlarged",
    Severity.WARNING,
    Trait.ONLY_WHEN_TRANSLATED,
    text=(
        "An init container requests a larger share of a device than a container after it. Both use "
        "one share of the larger amount, because a claim has one amount as long as the pod runs."
    ),
    example=(
        "spec.initContainers[0]: main and init container fetch use one share of the larger amount, "
        "because the pod holds its devices as long as it runs"
    ),
    remedy="Reduce the request of the init container if the pod must hold less.",
)
NETWORK_UNKNOWN = CODES.define(
    "NetworkUnknown",
    Severity.INFO,
    text=(
        "The configuration does not specify the resource of a secondary network. If the "
        "network uses devices, they are not requested."
    ),
    example=(
        "metadata.annotations[k8s.v1.cni.cncf.io/networks]: the configuration does not "
        "specify the resource of network default/sriov-a"
    ),
    remedy="Set the resource of the network in `legacy.networks`.",
)
