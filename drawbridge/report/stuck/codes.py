"""Finding codes of what is stuck."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.OPERATE)

DELETION_STUCK = CODES.define(
    "DeletionStuck",
    Severity.WARNING,
    text=(
        "A claim, a pod or a namespace has been under deletion for longer than it takes, because a "
        "finalizer or a consumer keeps it. Its devices are held until then."
    ),
    example=(
        "ResourceClaim/team-a/train-gpu: under deletion since 2026-11-24 10:00 UTC; held by "
        "finalizer example.com/billing"
    ),
    remedy="Repair the program that owns the finalizer. Do not remove a finalizer of Kubernetes.",
)
CONSUMER_GONE = CODES.define(
    "ConsumerGone",
    Severity.WARNING,
    text="A claim is reserved for a pod that does not exist, or was made for one, and is kept.",
    example="ResourceClaim/team-a/train-gpu: pod train is gone; the claim holds 1 device",
    remedy=(
        "Check that kube-controller-manager runs with the controllers resourceclaim-controller and "
        "garbage-collector-controller, which release and delete such claims, and read its log."
    ),
)
NEVER_ALLOCATED = CODES.define(
    "NeverAllocated",
    Severity.WARNING,
    text=(
        "A claim of a pod has no devices, and nothing will give it some: no scheduler tries the "
        "pod, the pod has a node that no scheduler chose, or a DeviceClass or driver is missing. A "
        "pod that waits for devices that others hold is not meant."
    ),
    example="ResourceClaim/team-a/train-gpu: DeviceClass gpu.example.com does not exist",
    remedy="Start the scheduler that the pod names, or install the class and its driver.",
)
NEVER_PREPARED = CODES.define(
    "NeverPrepared",
    Severity.WARNING,
    text="A pod has a node and devices, but the kubelet has not prepared them or started the pod.",
    example="Pod/team-a/train: has devices and no containers; held by kubelet of node gpu-1",
    remedy=(
        "Read the events of the pod, and the logs of the kubelet and of the driver on the node. "
        "Delete the pod only if it shall run elsewhere."
    ),
)
NEVER_RELEASED = CODES.define(
    "NeverReleased",
    Severity.WARNING,
    text="A pod has ended, or is under deletion, and its devices are not released.",
    example=(
        "Pod/team-a/train: ended, but not released; held by driver gpu.nvidia.com on node gpu-1"
    ),
    remedy=(
        "Repair the driver or the kubelet, which then release the devices. Do not delete the pod "
        "with --force: the node may still use the devices that the next pod gets."
    ),
)
NOT_PUBLISHED = CODES.define(
    "NotPublished",
    Severity.WARNING,
    text=(
        "A claim or pod holds a device that no driver or device plugin publishes any more, or a "
        "ResourceSlice is of a node that does not exist."
    ),
    example="ResourceClaim/team-a/train-gpu: gpu.nvidia.com/gpu-1/gpu-7 is not published",
    remedy=(
        "Start the driver of the node again. If the device is gone for good, delete the pods that "
        "hold it."
    ),
)
