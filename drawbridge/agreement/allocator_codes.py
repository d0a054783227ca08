"""The finding codes of the allocator: why a pod of its scheduler has no devices."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.EXPLAIN)

CLAIM_TOO_LARGE = CODES.define(
    "ClaimTooLarge",
    Severity.ERROR,
    text=(
        "The objects of a namespace take more than its share of the allocator's memory, so the "
        "allocator does not keep this claim, and places the pods of others only."
    ),
    example=(
        "ResourceClaim team/gpus is too large: namespace team has more than its share of the "
        "allocator's memory"
    ),
    remedy=(
        "Delete claims and pods of the namespace that nobody needs, write less into them, or raise "
        "the memory limit of the allocator. The claim is read again within about a minute."
    ),
)
CLAIM_DELETED = CODES.define(
    "ClaimDeleted",
    Severity.ERROR,
    text="A claim of a pod was deleted.",
    example="ResourceClaim default/gpus was deleted",
    remedy=(
        "Create a claim that the pod names. A generated claim is created again by "
        "kube-controller-manager."
    ),
)
CLAIM_BEING_DELETED = CODES.define(
    "ClaimBeingDeleted",
    Severity.ERROR,
    text="A claim of a pod is being deleted, so no further pod can use it.",
    example="ResourceClaim default/gpus is being deleted",
    remedy="Wait until it is deleted, and create it again.",
)
CLAIM_HAS_MAX_CONSUMERS = CODES.define(
    "ClaimHasMaxConsumers",
    Severity.ERROR,
    text="A claim is used by 256 pods, the maximum that Kubernetes allows.",
    example="ResourceClaim default/gpus is reserved for 256 pods, which is the maximum",
    remedy="Wait until one of the pods ends, or use another claim for further pods.",
)
CLAIM_OF_ANOTHER_POD = CODES.define(
    "ClaimOfAnotherPod",
    Severity.ERROR,
    text="A claim was generated for an earlier pod of the same name.",
    example="ResourceClaim default/web-0-gpus-x2k4q belongs to an earlier pod web-0",
    remedy="Wait until the garbage collector deletes it.",
)
POD_DELETED = CODES.define(
    "PodDeleted",
    Severity.ERROR,
    text="A pod was deleted, and the scheduler still tries to schedule it.",
    example="the pod was deleted",
    remedy="No action is needed.",
)
GANG_TOO_LARGE = CODES.define(
    "GangTooLarge",
    Severity.ERROR,
    text="Too few members of a gang fit together, so that none gets devices.",
    example="6 of 8 members of the group fit",
    remedy=(
        "Wait until devices are free, or lower the number of members that must run together. "
        "drawbridge explain shows what each member asks for."
    ),
)
GANG_TOO_VARIED = CODES.define(
    "GangTooVaried",
    Severity.ERROR,
    text=(
        "The members of a gang ask for too many different things: claims, node selectors, affinity "
        "and tolerations. Each of them is looked for on all nodes, so a gang can have 16, with 64 "
        "expressions of required node affinity together."
    ),
    example="the members of the group ask for 40 different things, at most 16",
    remedy="Use the same pod template for members that may run anywhere.",
)
GANG_INCOMPLETE = CODES.define(
    "GangIncomplete",
    Severity.ERROR,
    text="Fewer members of a gang exist than must run together.",
    example="5 of 8 members of the group exist",
    remedy="Check what creates the pods of the gang, for example its quota.",
)
GANG_PAUSES = CODES.define(
    "GangPauses",
    Severity.ERROR,
    text=(
        "Devices were held for all members of a gang, and the scheduler did not place all of them. "
        "Others get the devices before they are held again."
    ),
    example="devices were held for the group and not all of its members were scheduled; it is "
    "tried again in 8 s",
    remedy="Check what else the pods need, for example CPU and memory on the nodes with devices.",
)
GANG_HOLD_ENDED = CODES.define(
    "GangHoldEnded",
    Severity.WARNING,
    text=(
        "Devices were held for all members of a gang, and the hold ended as a whole before all of "
        "them were reserved. The event is on one of the members."
    ),
    example="devices are no longer held for 1 of 4 members of the gang: the scheduler did not "
    "reserve all members in time",
    remedy=(
        "The gang is tried again. Check what else its pods need, for example CPU and memory on the "
        "nodes with devices."
    ),
)
GANG_INTERRUPTED = CODES.define(
    "GangInterrupted",
    Severity.ERROR,
    text=(
        "After a change of the leader, gangs of which a part is bound get devices before all other "
        "pods, because that part runs for nothing."
    ),
    example="1 groups of which a part is bound get devices first",
    remedy="Wait: other pods are tried again within 10 seconds.",
)
NODE_REFUSED = CODES.define(
    "NodeRefused",
    Severity.ERROR,
    text=(
        "Nodes do not match the node selector or the node affinity of a pod, or they have a taint "
        "that it does not tolerate."
    ),
    example="the node has the taint drawbridge.dev/owned:NoSchedule, which the pod does not "
    "tolerate",
    remedy="Check the node selector, the node affinity and the tolerations of the pod.",
)
NO_OWNED_POOL = CODES.define(
    "NoOwnedPool",
    Severity.ERROR,
    text="Nodes have no devices that the allocator owns.",
    example="no devices of the allocator",
    remedy=(
        "Add the driver and the nodes to ownedPools. Check that the driver publishes "
        "ResourceSlices, and that no device plugin serves the same devices."
    ),
)
DEVICES_BEING_RELEASED = CODES.define(
    "DevicesBeingReleased",
    Severity.INFO,
    text=(
        "Pods that ended or are terminating still hold the devices that a pod needs. The allocator "
        "keeps them for this pod."
    ),
    example="waits for 2 devices that are being released on node gpu-1",
    remedy="No action is needed.",
)
DEVICES_HELD = CODES.define(
    "DevicesHeld",
    Severity.INFO,
    text=(
        "An administrator holds devices of a node for a pod, as a plan of `drawbridge simulate "
        "--defrag` says. The pod gets them when the pods to evict have released them and the node "
        "can be used."
    ),
    example="devices on node gpu-1 are held for the pod until 2026-11-22T20:30:00Z; 4 claims of "
    "pods to evict still have some",
    remedy="Run the other commands of the plan.",
)
DEVICES_MAY_BE_IN_USE = CODES.define(
    "DevicesMayBeInUse",
    Severity.WARNING,
    text=(
        "A pod vanished, for example because it was deleted with force, before its node confirmed "
        "that its containers have ended. They can still use its devices, so these stay unpromised "
        "for its termination grace period and `bridge.forcedDeletionSeconds`."
    ),
    example="1 device on 1 node stays unpromised for at most 60 s: pods vanished before it was "
    "confirmed that their containers have ended",
    remedy=(
        "Wait, or delete pods without --force. If the node is shut down, delete it or give it the "
        "taint node.kubernetes.io/out-of-service: its devices are then free at once."
    ),
)
SEARCH_CONTINUES = CODES.define(
    "SearchContinues",
    Severity.INFO,
    text=(
        "The allocator has examined some of the nodes and continues in the background, because a "
        "call of the scheduler has a time limit."
    ),
    example="examined 1000 of 5000 nodes; the search continues",
    remedy="No action is needed. The pod is tried again when a node is found.",
)
MARK_NOT_REMOVED = CODES.define(
    "MarkNotRemoved",
    Severity.WARNING,
    text=(
        "A claim has the annotation drawbridge.dev/allocation, but no allocation, and the API "
        "server refuses to remove the annotation. After a restart or a change of the leader, its "
        "devices are given to no other claim until the claim changes. The allocator tries again, "
        "at most every five minutes."
    ),
    example=(
        "metadata.annotations[drawbridge.dev/allocation]: cannot remove the mark: 500 "
        "InternalError: failed calling webhook claims.example.com"
    ),
    remedy=(
        "Repair the webhook or the policy that the message names, or delete the claim if no pod "
        "needs it."
    ),
)
ALLOCATION_TAKEN_BACK = CODES.define(
    "AllocationTakenBack",
    Severity.WARNING,
    text=(
        "Another allocator wrote an allocation that contradicts one of Drawbridge. No pod of the "
        "claim of Drawbridge was bound yet, so this claim was deallocated, and its pods are tried "
        "again. The allocation of the other one stays as it is."
    ),
    example=(
        "ResourceClaim/default/train-gpu: claim other/job, which another allocator wrote, "
        "contradicts claim default/train-gpu: Device/gpu.nvidia.com/node-1/gpu-0"
    ),
    remedy=(
        "The pod gets other devices. Find out who allocates devices of this pool, and use one "
        "scheduler for it."
    ),
)
ALLOCATION_NOT_TAKEN_BACK = CODES.define(
    "AllocationNotTakenBack",
    Severity.WARNING,
    text=(
        "Another allocator wrote an allocation that contradicts one of Drawbridge, and this one "
        "could not be taken back so far. The pod is not bound meanwhile. The allocator tries "
        "again, at most every five minutes."
    ),
    example=(
        "ResourceClaim/default/train-gpu: claim other/job, which another allocator wrote, "
        "contradicts claim default/train-gpu: Device/gpu.nvidia.com/node-1/gpu-0; it is not taken "
        "back: 403 Forbidden"
    ),
    remedy="Correct what the message names, or delete one of the two pods.",
)
WRITE_NOT_UNDONE = CODES.define(
    "WriteNotUndone",
    Severity.WARNING,
    text=(
        "A binding failed, and the API server does not let the allocator remove what it wrote to "
        "the claim before. The devices stay reserved. The allocator tries again, at most every "
        "five minutes."
    ),
    example=(
        "metadata: the devices for pod default/train stay reserved: 500 InternalError: failed "
        "calling webhook claims.example.com"
    ),
    remedy=(
        "Repair the webhook or the policy that the message names, or delete the claim if no pod "
        "needs it."
    ),
)
