"""The findings of this package."""

from dra.finding import Code, Codes, Severity

MARK_UNREADABLE = Code(
    name="MarkUnreadable",
    severity=Severity.WARNING,
    text=(
        "The annotation drawbridge.dev/allocation of a claim cannot be read. What the claim's "
        "devices drew when they were allocated is not known then, only what slices say now."
    ),
    example="metadata.annotations[drawbridge.dev/allocation]: JSON is malformed (byte 3)",
    remedy="Do not edit this annotation; it goes with the claim.",
)
HELD_TWICE = Code(
    name="DeviceHeldTwice",
    severity=Severity.ERROR,
    text="Several claims hold a device that only one can have.",
    example="Device/gpu.nvidia.com/node-1/gpu-0: it is held by default/a and default/b",
    remedy="Delete the pods of all of these claims but one; let one scheduler allocate this pool.",
)
CAPACITY_EXCEEDED = Code(
    name="CapacityExceeded",
    severity=Severity.ERROR,
    text="Shares of a device consume more of a capacity than it has.",
    example="Device/nic.example.com/node-1/eth0: claims consume 12G of bandwidth, it has 10G",
    remedy="Delete pods that hold shares of the device until the rest fits.",
)
COUNTER_EXCEEDED = Code(
    name="CounterOverdrawn",
    severity=Severity.ERROR,
    text="Allocated devices draw more from a counter than its set has, by what is published now.",
    example="Pool/gpu.nvidia.com/node-1: gpu-0-counters has 40Gi memory, devices draw 45Gi",
    remedy="Delete pods that hold these devices; a driver must not change allocated devices.",
)
GROUPS_CONTRADICT = Code(
    name="GroupsContradict",
    severity=Severity.ERROR,
    text="Devices that draw from one counter set are allocated and have no group in common.",
    example="Pool/gpu.nvidia.com/node-1: devices on gpu-0-counters have no group in common",
    remedy="Delete pods until the devices left have a compatibility group in common.",
)
COMPANY_REFUSED = Code(
    name="CompanyRefused",
    severity=Severity.ERROR,
    text="Devices are allocated at one time that by compatibleOnlyWith do not go together.",
    example="Device/d.io/n/gpu-0: it is allocated beside d.io/n/mig-1 and does not go with it",
    remedy="Delete the pods of one of the two; let one scheduler allocate this pool.",
)
DEVICE_LOST = Code(
    name="DeviceLost",
    severity=Severity.WARNING,
    text="An allocated device is not published any more in its pool's newest generation.",
    example="Device/gpu.nvidia.com/node-1/gpu-3: default/a holds it, generation 4 has it not",
    remedy="Delete the pods that use it; if the device is healthy, let its driver publish it.",
)
NOT_SHARED = Code(
    name="DeviceNotShared",
    severity=Severity.WARNING,
    text="Claims hold shares of a device that is published as not shareable.",
    example="Device/gpu.nvidia.com/node-1/gpu-3: default/a and default/b hold shares of it",
    remedy="Let the driver publish allowMultipleAllocations for as long as shares are held.",
)
LEDGER_INCONSISTENT = Code(
    name="LedgerInconsistent",
    severity=Severity.ERROR,
    text="What is remembered of holders is not what claims and promises say. This is a bug.",
    example="Device/gpu.nvidia.com/node-1/gpu-3: remembered are [], claims say [default/a]",
    remedy="Restart the allocator, which reads everything anew, and report this.",
)
CLAIM_MISSING = Code(
    name="ClaimMissing",
    severity=Severity.ERROR,
    text="A pod, or the command line, names a claim or a claim template that is not there.",
    example="spec.resourceClaims[0]: there is no ResourceClaim default/gpus",
    remedy="Create it in the pod's namespace, or correct the name.",
)
CLAIM_UNUSABLE = Code(
    name="ClaimUnusable",
    severity=Severity.WARNING,
    text=(
        "A claim is there, and the pod cannot have it: it is being deleted, or used by as many "
        "pods as can be."
    ),
    example="spec.resourceClaims[0]: ResourceClaim default/gpus is being deleted",
    remedy="Give the pod a claim of its own.",
)
CLAIM_REFERENCE_WRONG = Code(
    name="ClaimReferenceWrong",
    severity=Severity.ERROR,
    text=(
        "An entry of a pod's claims names neither or both of a claim and a template, or a "
        "container uses a claim or a request that is not there."
    ),
    example="spec.containers[0].resources.claims[0]: the pod has no claim gpu",
    remedy="Name exactly one of both; let containers use what the pod has.",
)
ALLOCATED_ELSEWHERE = Code(
    name="AllocatedElsewhere",
    severity=Severity.WARNING,
    text="A claim of the pod is allocated, and its devices cannot be used on a node.",
    example="ResourceClaim default/shared is allocated for other nodes",
    remedy="Let the pod run where the claim's devices are, or give it a claim of its own.",
)
NOT_PROMISED = Code(
    name="NotPromised",
    severity=Severity.WARNING,
    text=(
        "A solution was found and not promised: it would give a claim a whole device of which "
        "another claim holds a share."
    ),
    example="a device is held by another claim",
    remedy="Let the driver publish allowMultipleAllocations for as long as shares are held.",
)
NODE_UNFIT = Code(
    name="NodeUnfit",
    severity=Severity.WARNING,
    text="A pod's nodeName or nodeSelector, or --node, leaves a node out, or it is unschedulable.",
    example="nodeSelector zone=b matches no node",
    remedy="Correct the selector, or uncordon a node.",
)
NODE_UNKNOWN = Code(
    name="NodeUnknown",
    severity=Severity.ERROR,
    text="A node is named that is not among the objects given.",
    example="--node: there is no Node gpu-7",
    remedy="Correct the name, or give the Node object with --cluster.",
)
SERVED_BY_PLUGIN = Code(
    name="ServedByPlugin",
    severity=Severity.INFO,
    text=(
        "Nodes advertise a resource name that a pod asks for: a device plugin serves it there, "
        "without a claim. Whether the plugin has devices left is not looked at."
    ),
    example="spec: nvidia.com/gpu is served by a device plugin on 2 nodes, without a claim",
    remedy="Nothing to do. To have these devices allocated by DRA, take the plugin off the nodes.",
)
SERVED_BY_NOBODY = Code(
    name="ServedByNobody",
    severity=Severity.WARNING,
    text="A pod asks for a resource name that neither a node nor a DeviceClass serves.",
    example="spec: nobody serves nvidia.com/gpu: no node advertises it, no class has the name",
    remedy="Install what serves the name, or set extendedResourceName in a DeviceClass.",
)
NOTHING_TO_PLACE = Code(
    name="NothingToPlace",
    severity=Severity.WARNING,
    text="There is no pod in the input that would have to be placed.",
    example="there is no pod to place",
    remedy="Give pods with -f, or claims with --claims.",
)
NOT_SIMULATED = Code(
    name="NotSimulated",
    severity=Severity.WARNING,
    text="An object that makes pods is in the input: only pods themselves are placed.",
    example="Deployment/web: its pods are not placed",
    remedy="Give the pods it makes.",
)

CODES = Codes(
    "allocator",
    [
        MARK_UNREADABLE,
        HELD_TWICE,
        CAPACITY_EXCEEDED,
        COUNTER_EXCEEDED,
        GROUPS_CONTRADICT,
        COMPANY_REFUSED,
        DEVICE_LOST,
        NOT_SHARED,
        LEDGER_INCONSISTENT,
        CLAIM_MISSING,
        CLAIM_UNUSABLE,
        CLAIM_REFERENCE_WRONG,
        ALLOCATED_ELSEWHERE,
        NOT_PROMISED,
        NODE_UNFIT,
        NODE_UNKNOWN,
        SERVED_BY_PLUGIN,
        SERVED_BY_NOBODY,
        NOTHING_TO_PLACE,
        NOT_SIMULATED,
    ],
)
