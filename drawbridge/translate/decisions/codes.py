"""Finding codes of the decisions about asks."""

from drawbridge.finding import Activity, Codes, Severity, Trait

CODES = Codes(Activity.TRANSLATE)

LEFT_TO_CLASS = CODES.define(
    "LeftToClass",
    Severity.INFO,
    Trait.LEAVES_REQUEST,
    text=(
        "A DeviceClass serves the extended resource natively, so the request needs no translation."
    ),
    example=(
        "spec.containers[0]: nvidia.com/gpu stays as it is, because DeviceClass "
        "gpu.nvidia.com serves it"
    ),
    remedy=(
        "Set `decisions.nativeExtendedNames: translate` to create a claim anyway, and for shares "
        "`decisions.nativeShares: translate`."
    ),
)
CLASS_WOULD_SERVE = CODES.define(
    "ClassWouldServe",
    Severity.INFO,
    text="The request is translated although a DeviceClass serves the extended resource natively.",
    example=(
        "spec.containers[0]: nvidia.com/gpu is translated, although DeviceClass "
        "gpu.nvidia.com serves it"
    ),
    remedy="Set `decisions.nativeExtendedNames: leave` to leave such requests as they are.",
)
LEFT_TO_PLUGIN = CODES.define(
    "LeftToPlugin",
    Severity.WARNING,
    Trait.LEAVES_REQUEST,
    text=(
        "A request stays with its device plugin, because the plugin shares the device between"
        " pods and a claim would allocate the whole device."
    ),
    example=(
        "spec.containers[0]: rdma/hca_shared_devices_a stays with its device plugin, which "
        "shares the device between pods"
    ),
    remedy=(
        "No action is needed while the device plugin runs. To have the request translated, remove "
        "the plugin."
    ),
)
LEFT_AS_IT_IS = CODES.define(
    "LeftAsItIs",
    Severity.WARNING,
    Trait.LEAVES_REQUEST,
    text=(
        "A ResourceClaim cannot express the request, so it stays with the device plugin or "
        "DeviceClass that serves it."
    ),
    example=(
        "spec.containers[0]: nvidia.com/gpumem stays with the device plugin that serves it: "
        "gpu.nvidia.com does not share its devices"
    ),
    remedy="To have the request translated, remove the cause that the message names.",
)
NOTHING_SAYS_IT = CODES.define(
    "NothingSaysIt",
    Severity.ERROR,
    text="The request has no counterpart in DRA, and no device plugin serves it.",
    example="spec.containers[0]: koordinator.sh/fpga: no DRA driver for it is known",
    remedy="Run the pod where a device plugin serves the resource, or remove the request.",
)
LOST_IN_CLAIMS = CODES.define(
    "LostInClaims",
    Severity.WARNING,
    text="A ResourceClaim cannot express a property of the request, so the translation loses it.",
    example=(
        "spec.containers[0]: intel.com/sriov: the claim does not set the environment variables of "
        "the device plugin"
    ),
    remedy="Check that the pod works without this property.",
)
AMOUNT_MAPPED_BY_CLASS = CODES.define(
    "AmountMappedByClass",
    Severity.WARNING,
    text=(
        "A DeviceClass serves an extended resource whose number is an amount, such as memory in "
        "MiB. Kubernetes allocates one device of the class for each unit of the amount."
    ),
    example=(
        "spec.containers[0]: nvidia.com/gpu, nvidia.com/gpumem: DeviceClass gpu.example.com serves "
        "nvidia.com/gpumem as a number of devices, but the pod requests an amount by it"
    ),
    remedy="Remove `extendedResourceName` from the DeviceClass, or set a name that counts devices.",
)
NO_NODE_OFFERS_ALL = CODES.define(
    "NoNodeOffersAll",
    Severity.ERROR,
    text=(
        "A pod runs on one node. Different nodes offer the devices that the pod requests, and no "
        "node offers all of them. It is an error if all are devices of classes whose fleets are "
        "closed, so that no nodes with other devices will be added. Otherwise, for example if a "
        "device plugin serves one of them, it is a warning, and the pod is translated."
    ),
    example=(
        "spec.containers[0]: no node offers DeviceClass gpu.nvidia.com and DeviceClass "
        "hami-core-gpu.project-hami.io together"
    ),
    remedy=(
        "Request devices that one node offers, as `drawbridge config facts` lists them under "
        "`offers`, run the containers in different pods, or set `fleet[].closed` to false for a "
        "class if such a node will be added."
    ),
)
CAPACITY_SHRINKS = CODES.define(
    "CapacityShrinks",
    Severity.WARNING,
    Trait.ONLY_WHEN_TRANSLATED,
    text=(
        "Device plugins serve the request on more nodes than DRA drivers serve the claims that "
        "replace it, so fewer pods can run than today. A node on which both offer the same devices "
        "counts for the device plugin, because translated pods avoid it."
    ),
    example=(
        "spec.containers[0]: device plugins offer 240 of nvidia.com/gpu on 6 nodes, but claims can "
        "use 1 node; the cluster has 2 devices of class hami-core-gpu.project-hami.io"
    ),
    remedy="Move more nodes to the DRA driver before you translate.",
)
ADMIN_ACCESS_NOT_ALLOWED = CODES.define(
    "AdminAccessNotAllowed",
    Severity.ERROR,
    text=(
        "The pod monitors devices that other pods use. A claim needs admin access for that, which "
        "a legacy request gets only if the configuration allows it."
    ),
    example=(
        "gpu.intel.com/i915_monitoring: the container monitors devices that other pods use, but "
        "decisions.adminAccess is refuse"
    ),
    remedy=(
        "Set `decisions.adminAccess: allow`, and set the label "
        '`resource.kubernetes.io/admin-access: "true"` on the namespace.'
    ),
)
ADMIN_ACCESS_NOT_LABELLED = CODES.define(
    "AdminAccessNotLabelled",
    Severity.ERROR,
    text="The API server allows admin access only in namespaces with a label.",
    example=(
        "gpu.intel.com/i915_monitoring: the container monitors devices that other pods use, but "
        "the namespace does not have the label resource.kubernetes.io/admin-access with the value "
        "true"
    ),
    remedy='Set the label `resource.kubernetes.io/admin-access: "true"` on the namespace.',
)
ADMIN_ACCESS_UNKNOWN = CODES.define(
    "AdminAccessUnknown",
    Severity.WARNING,
    text=(
        "The claim has admin access, which the API server allows only in namespaces with a label. "
        "The labels of the namespace are not known."
    ),
    example=(
        "gpu.intel.com/i915_monitoring: the container monitors devices that other pods use, but "
        "the namespace must have the label resource.kubernetes.io/admin-access with the value true"
    ),
    remedy='Set the label `resource.kubernetes.io/admin-access: "true"` on the namespace.',
)
SERVER_UNKNOWN = CODES.define(
    "ServerUnknown",
    Severity.WARNING,
    text=(
        "No facts about the cluster are available, so the translation assumes that a device "
        "plugin serves the extended resource."
    ),
    example=(
        "spec: nvidia.com/gpu: assumed to be served by a device plugin, because no facts "
        "about the cluster are available"
    ),
    remedy="Pass the cluster with --context or --cluster, or its facts with --facts.",
)
SCHEDULER_WITHOUT_CLAIMS = CODES.define(
    "SchedulerWithoutClaims",
    Severity.WARNING,
    text=(
        "The pod's scheduler cannot run pods with claims and reads the resource names itself, so "
        "the pod is not translated. Slurm bridge denies such pods, because it makes the claims "
        "from what Slurm allocates. YuniKorn binds them without an allocation."
    ),
    example="spec.schedulerName: yunikorn allocates no claims, so the pod stays as it is",
    remedy=(
        "Nothing is needed while a device plugin serves the names. Do not enforce the translation "
        "in a namespace whose pods get this scheduler from a webhook that runs after Drawbridge."
    ),
)
POD_BOUND = CODES.define(
    "PodBound",
    Severity.WARNING,
    text=(
        "The pod is already assigned to a node, so the scheduler would not allocate its "
        "claims. It is not translated."
    ),
    example="spec.nodeName: the pod is already assigned to node worker-1",
    remedy="Remove nodeName, or translate the workload that creates the pod.",
)
POD_MIRRORED = CODES.define(
    "PodMirrored",
    Severity.WARNING,
    text="The pod is the mirror of a static pod, which cannot have claims. It is not translated.",
    example=(
        "metadata.annotations[kubernetes.io/config.mirror]: the pod is the mirror of a static pod"
    ),
    remedy="Create the pod through the API server instead, for example with a DaemonSet.",
)
PLACE_TAKEN = CODES.define(
    "PlaceTaken",
    Severity.ERROR,
    text="The translation must extend a field of the pod, but the field has the wrong type.",
    example='spec.resourceClaims: spec.resourceClaims must be a list, not "gpu"',
    remedy="Correct the field in the pod.",
)
