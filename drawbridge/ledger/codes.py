"""Finding codes of the ledger: audit, claim references and placement."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.PLACE)

MARK_UNREADABLE = CODES.define(
    "MarkUnreadable",
    Severity.WARNING,
    text=(
        "The annotation drawbridge.dev/allocation of a claim is invalid. The counters of its "
        "devices at allocation are unknown, so only the current slices apply."
    ),
    example=(
        "metadata.annotations[drawbridge.dev/allocation]: the annotation cannot be read, so the "
        "counters of the current slices apply: JSON is malformed (byte 3)"
    ),
    remedy=(
        "Delete the claim when its pods have ended; the next claim gets a new annotation. Find out "
        "who edits it: only the allocator may."
    ),
)
GANG_NOT_PLACED = CODES.define(
    "GangNotPlaced",
    Severity.ERROR,
    text=(
        "Fewer members of a gang than its minimum can be placed together, so that none is placed."
    ),
    example="PodGroup ml/train needs 8 members together, and 6 of 8 that wait fit",
    remedy="Free devices, add nodes, or lower the minimum. The reasons of the members follow.",
)
DEVICE_HELD_TWICE = CODES.define(
    "DeviceHeldTwice",
    Severity.ERROR,
    text="Several claims hold a device that only one claim can hold.",
    example="Device/gpu.nvidia.com/node-1/gpu-0: held by default/a and default/b",
    remedy=(
        "Unless the allocation of Drawbridge is taken back (AllocationTakenBack), delete the pods "
        "of all these claims but one. Then restart the default scheduler, unless the node is "
        "owned: with the first claim it forgets the device, and allocates it again. Use one "
        "scheduler for this pool."
    ),
)
DEVICE_OF_OTHER_NODE = CODES.define(
    "DeviceOfOtherNode",
    Severity.ERROR,
    text=(
        "A claim is allocated for one node, but its devices are of another node. A driver that "
        "reads only the name of the device prepares a device that another claim may hold."
    ),
    example=(
        "Pool/gpu.nvidia.com/node-2: the claim is allocated for node node-1, but pool node-2 is of "
        "node node-2"
    ),
    remedy="Delete the pod. Find out who wrote the allocation: no scheduler does.",
)
CAPACITY_EXCEEDED = CODES.define(
    "CapacityExceeded",
    Severity.ERROR,
    text="The shares of a device consume more of a capacity than the device has.",
    example="Device/nic.io/node-1/eth0: claims consume 12G of bandwidth, but the device has 10G",
    remedy="Delete pods that hold shares of the device until the remaining shares fit.",
)
COUNTER_OVERDRAWN = CODES.define(
    "CounterOverdrawn",
    Severity.ERROR,
    text="Allocated devices consume more of a counter than its current total.",
    example=(
        "Pool/d.io/n: allocated devices consume 2 more of counter memory of gpu-0 than its total "
        "of 40Gi"
    ),
    remedy="Delete pods that use these devices. Make the driver keep allocated devices unchanged.",
)
GROUPS_CONTRADICT = CODES.define(
    "GroupsContradict",
    Severity.ERROR,
    text="Allocated devices on one counter set have no compatibility group in common.",
    example="Pool/d.io/n: allocated devices on gpu-0 have no compatibility group in common",
    remedy="Delete pods until the remaining devices have a compatibility group in common.",
)
COMPANY_REFUSED = CODES.define(
    "CompanyRefused",
    Severity.ERROR,
    text="Devices are allocated together although compatibleOnlyWith excludes one of them.",
    example="Device/d.io/n/gpu-0: allocated together with d.io/n/mig-1, but not compatible",
    remedy="Delete the pods of one of the devices. Use one scheduler for this pool.",
)
RULE_BROKEN = CODES.define(
    "RuleBroken",
    Severity.WARNING,
    text=(
        "The devices of a claim do not satisfy a required rule in its annotation "
        "drawbridge.dev/rules. They did when the claim was allocated. Since then, the driver "
        "changed their attributes, or the rules were changed."
    ),
    example="ResourceClaim/default/pair: the allocated devices do not satisfy joint[0]",
    remedy="Delete the pods of the claim, so that they get other devices.",
)
DEVICE_LOST = CODES.define(
    "DeviceLost",
    Severity.WARNING,
    text="The newest generation of a pool does not contain an allocated device.",
    example="Device/d.io/n/gpu-3: held by default/a, but not published in generation 4",
    remedy="Delete the pods that use it. If the device is healthy, make its driver publish it.",
)
DEVICE_NOT_SHARED = CODES.define(
    "DeviceNotShared",
    Severity.WARNING,
    text="Claims hold shares of a device that does not allow multiple allocations.",
    example="Device/d.io/n/gpu-3: default/a and default/b hold shares of an exclusive device",
    remedy="Make the driver publish allowMultipleAllocations while shares are in use.",
)
MARK_EXCEEDS_DEVICE = CODES.define(
    "MarkExceedsDevice",
    Severity.WARNING,
    text=(
        "The annotation `drawbridge.dev/allocation` of a claim records more counters than its "
        "device consumes. The slices count. Either the driver changed the device, or somebody who "
        "may write the claim changed the annotation."
    ),
    example=(
        "claim team/a: the mark of Device/d.io/n/gpu-3 records counters that the device does not "
        "consume, or more of one than it consumes"
    ),
    remedy=(
        "Find out who wrote the annotation. Its counters are ignored while slices have the device."
    ),
)
LEDGER_INCONSISTENT = CODES.define(
    "LedgerInconsistent",
    Severity.ERROR,
    text="The index of the ledger does not match claims and reservations. This is a bug.",
    example="Device/gpu.nvidia.com/node-1/gpu-3: the index has holders [], the claims ['a']",
    remedy="Restart the allocator, which rebuilds the ledger, and report the bug.",
)
CLAIM_MISSING = CODES.define(
    "ClaimMissing",
    Severity.ERROR,
    text="A pod or the command line names a claim or a claim template that does not exist.",
    example="spec.resourceClaims[0]: ResourceClaim default/gpus does not exist",
    remedy="Create it in the pod's namespace, or correct the name.",
)
CLAIM_UNUSABLE = CODES.define(
    "ClaimUnusable",
    Severity.WARNING,
    text=(
        "The pod cannot use a claim, because the claim is being deleted or is reserved for the "
        "maximum number of pods."
    ),
    example="spec.resourceClaims[0]: ResourceClaim default/gpus is being deleted",
    remedy="Give the pod a claim of its own.",
)
CLAIM_REFERENCE_WRONG = CODES.define(
    "ClaimReferenceWrong",
    Severity.ERROR,
    text=(
        "An entry in the claims of a pod names both a claim and a template, or neither, or a "
        "container uses a claim or a request that does not exist."
    ),
    example="spec.containers[0].resources.claims[0]: the pod has no claim gpu",
    remedy=(
        "Set exactly one of resourceClaimName and resourceClaimTemplateName. In containers, name "
        "only claims of the pod and requests of these claims."
    ),
)
ALLOCATED_ELSEWHERE = CODES.define(
    "AllocatedElsewhere",
    Severity.WARNING,
    text="A claim of the pod is already allocated, and its devices are on other nodes.",
    example="ResourceClaim default/shared is allocated on other nodes",
    remedy="Run the pod where the claim's devices are, or give it a claim of its own.",
)
NOT_PROMISED = CODES.define(
    "NotPromised",
    Severity.WARNING,
    text=(
        "The solver found devices, but they cannot be reserved: the pod would get a whole device "
        "of which another claim still holds a share."
    ),
    example=(
        "devices of node gpu-a suit the pod, but cannot be reserved: another claim holds one of "
        "them"
    ),
    remedy=(
        "Delete the claim that holds a share of the device, or make the driver publish "
        "allowMultipleAllocations while shares are in use."
    ),
)
NODE_ERROR_STOPS_POD = CODES.define(
    "NodeErrorStopsPod",
    Severity.WARNING,
    text=(
        "The allocation fails with an error on one node, so the default scheduler places the pod "
        "on no node. In a large cluster it does not examine every node, so the error may not "
        "occur. In bridge placement, the allocator uses the other nodes."
    ),
    example="an error on 1 node stops the pod, although 2 nodes have a solution",
    remedy="Correct the error in the other message, or exclude the node with a nodeSelector.",
)
RULES_NOT_ENFORCED = CODES.define(
    "RulesNotEnforced",
    Severity.WARNING,
    text=(
        "A claim has required rules in the annotation drawbridge.dev/rules. kube-scheduler does "
        "not read them, so it can allocate devices that the rules exclude."
    ),
    example=(
        "spec.metadata.annotations[drawbridge.dev/rules]: kube-scheduler does not enforce joint[0]"
    ),
    remedy=(
        "Translate the pod again with `placement: native`, which needs no rules, or use the "
        "scheduler of Drawbridge."
    ),
)
COMPATIBILITY_NOT_ENFORCED = CODES.define(
    "CompatibilityNotEnforced",
    Severity.WARNING,
    text=(
        "Compatibility of devices is declared, but the allocator does not read the declarations. "
        "It can allocate devices together that are not compatible."
    ),
    example=(
        "kube-scheduler does not enforce the compatibility rules of 2 ResourceSlices of "
        "gpu.example.com"
    ),
    remedy="Publish compatibilityGroups on counter sets, which Kubernetes 1.37 enforces.",
)
NODE_UNFIT = CODES.define(
    "NodeUnfit",
    Severity.WARNING,
    text=(
        "A pod's nodeName, nodeSelector or node affinity, or --node, excludes a node, the node is "
        "unschedulable, or the pod does not tolerate a taint of the node."
    ),
    example="excluded by nodeSelector zone=b",
    remedy="Correct the field that the message names, or uncordon a node.",
)
INSUFFICIENT_RESOURCES = CODES.define(
    "InsufficientResources",
    Severity.WARNING,
    text=(
        "The pods on a node request so much of a resource, for example CPU or memory, that less "
        "is left than the pod requests. Requests count against the allocatable amounts of the "
        "node, as in kube-scheduler."
    ),
    example="insufficient cpu: 16 of cpu requested, at most 3500m left",
    remedy="Reduce the requests of the pod, or move other pods off the nodes.",
)
NODE_UNKNOWN = CODES.define(
    "NodeUnknown",
    Severity.ERROR,
    text="The input does not contain the Node that --node names.",
    example="--node: Node gpu-7 not found",
    remedy="Correct the name, or pass the Node object with --cluster.",
)
SERVED_BY_PLUGIN = CODES.define(
    "ServedByPlugin",
    Severity.INFO,
    text=(
        "A device plugin on some nodes serves a resource that the pod requests, so the pod gets no "
        "claim for it. The simulation counts the requests against what the nodes advertise."
    ),
    example=(
        "spec: a device plugin serves nvidia.com/gpu on 2 nodes, so the pod gets no claim for it"
    ),
    remedy=(
        "No action is needed. To allocate the devices with DRA, remove the plugin from the nodes."
    ),
)
SERVED_BY_NOBODY = CODES.define(
    "ServedByNobody",
    Severity.WARNING,
    text="A pod requests a resource name that neither a node nor a DeviceClass serves.",
    example="spec: no node advertises nvidia.com/gpu, and no DeviceClass serves it",
    remedy="Install a device plugin for the name, or set extendedResourceName in a DeviceClass.",
)
NOTHING_TO_PLACE = CODES.define(
    "NothingToPlace",
    Severity.WARNING,
    text="The input has no pod to place.",
    example="no pod to place in the input",
    remedy="Pass pods with -f, or claims with --claims.",
)
NODES_MISSING = CODES.define(
    "NodesMissing",
    Severity.WARNING,
    text="The input has no Node, so no pod can be placed.",
    example="--cluster: the input has no Node",
    remedy=(
        "Pass the nodes, DeviceClasses and ResourceSlices of the cluster with --cluster, as "
        "`kubectl get nodes,namespaces,deviceclasses,resourceslices -o yaml` prints them."
    ),
)
NOT_SIMULATED = CODES.define(
    "NotSimulated",
    Severity.WARNING,
    text="A workload has more pods than the simulation places, so the result is a lower bound.",
    example="5,000 of 1,000,000 pods are placed, and the others are not tried",
    remedy="Reduce the number of replicas to a number that the cluster can run.",
)
RULE_NOT_SIMULATED = CODES.define(
    "RuleNotSimulated",
    Severity.INFO,
    text=(
        "A pod has a rule that the simulation does not check: about other pods, volumes, host "
        "ports or scheduling gates. The scheduler can refuse a node for it."
    ),
    example="spec: the simulation ignores podAntiAffinity and topologySpreadConstraints",
    remedy="No action is needed. If the scheduler places the pod elsewhere, this rule can be why.",
)
NOTHING_PREEMPTED = CODES.define(
    "NothingPreempted",
    Severity.INFO,
    text="A pod does not fit, and the eviction of pods with a lower priority cannot change that.",
    example="no preemption: the preemptionPolicy of the pod is Never",
    remedy="Give the pod a PriorityClass with a higher value, or free devices.",
)
BUDGET_VIOLATED = CODES.define(
    "BudgetViolated",
    Severity.WARNING,
    text=(
        "A preemption violates a PodDisruptionBudget. Like kube-scheduler, the simulation chooses "
        "victims without violations first."
    ),
    example="the eviction of 1 pod violates a PodDisruptionBudget",
    remedy="Give pods that must not be evicted a priority that is as high as that of other pods.",
)
CHANGE_UNREADABLE = CODES.define(
    "ChangeUnreadable",
    Severity.ERROR,
    text="An option of `drawbridge simulate` that changes the cluster names nothing in it.",
    example="--without: the input has no DeviceClass gpu.example.com",
    remedy="Name an object of the input. `--more-nodes` takes NODE=N, `--without` KIND/NAME.",
)
POD_NOT_RECREATED = CODES.define(
    "PodNotRecreated",
    Severity.WARNING,
    text="A pod of a drained node ends for good: no owner creates it again on another node.",
    example="Pod/research/notebook: no owner recreates it",
    remedy="Find out who uses it before the node is drained, or run it in a Deployment or Job.",
)
POD_KEEPS_DEVICES = CODES.define(
    "PodKeepsDevices",
    Severity.WARNING,
    text=(
        "A pod runs on when a driver, a device or a class is gone, and keeps its devices until it "
        "ends. Created again, it waits unless others serve it. Without its driver, a pod does not "
        "end cleanly."
    ),
    example="Pod/research/train-0: stays, and keeps gpu.nvidia.com/gpu-1/gpu-3, which nobody"
    " publishes then; created again, it needs others",
    remedy="Drain the nodes before the driver goes, so that the pods end while it runs.",
)
QUOTA_BELOW_USE = CODES.define(
    "QuotaBelowUse",
    Severity.WARNING,
    text="A quota is lower than what is used of it: nobody is evicted, and new pods wait.",
    example="Quota/research: namespace research uses 6 of 4 devices of class gpu.nvidia.com:"
    " running pods stay, and new ones wait",
    remedy="Raise the limit, or end pods of the namespace.",
)
POD_EVICTED = CODES.define(
    "PodEvicted",
    Severity.WARNING,
    text="A taint of devices with effect NoExecute evicts the pod.",
    example="Pod/research/train-0: evicted at once: claim research/train-0-gpu has"
    " gpu.nvidia.com/gpu-1/gpu-3, which gets the taint broken:NoExecute",
    remedy="Narrow the rule to fewer devices, or add a toleration with effect NoExecute.",
)
POD_NOT_EVICTED = CODES.define(
    "PodNotEvicted",
    Severity.WARNING,
    text=(
        "A pod has a device that gets a taint with effect NoExecute, and stays: its claim "
        "tolerates the taint, or it has the device by the name of an extended resource, whose "
        "claims the controller does not look at before 1.37.2."
    ),
    example="Pod/research/train-0: stays with gpu.nvidia.com/gpu-1/gpu-3: its claim tolerates "
    "the taint broken:NoExecute",
    remedy="Delete the pod if it must go.",
)
HOLD_IMPOSSIBLE = CODES.define(
    "HoldImpossible",
    Severity.ERROR,
    text="The devices that a plan frees cannot be held for the pod.",
    example="its scheduler is default-scheduler, which holds no devices",
    remedy=(
        "Leave --hold out: the cordon of the plan keeps others off the node while pods move. Only "
        "the allocator of bridge placement holds devices, for pods of a live cluster."
    ),
)
STRATEGY_WITHOUT_DATA = CODES.define(
    "StrategyWithoutData",
    Severity.WARNING,
    text=(
        "A strategy compares what no device of the node publishes: the capacities that have a "
        "weight, or the attributes that say which devices are near each other."
    ),
    example=("Pod/research/training: packed cannot compare cores: no device of n1 publishes it"),
    remedy="Use a driver that publishes one of them, or another strategy.",
)
