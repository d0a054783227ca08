"""Finding codes of the solver: the reasons why claims have no solution."""

from drawbridge.finding import Activity, Codes, Severity, Trait
from drawbridge.solver.eligibility import Stage

CODES = Codes(Activity.PLACE)


NO_DEVICE_OF_CLASS = CODES.define(
    "NoDeviceOfClass",
    Severity.ERROR,
    text="The node has too few devices of the requested class.",
    example="no device of class gpu.nvidia.com (0 of 4 devices)",
    remedy="Request a class that the node's drivers serve, or allow the pod on other nodes.",
)
NO_DEVICE_MATCHES = CODES.define(
    "NoDeviceMatches",
    Severity.ERROR,
    text="The node has devices of the class, but too few match the selectors of the request.",
    example=(
        "none of 8 gpu.nvidia.com devices matches: device.attributes[...].productName == 'H200'"
    ),
    remedy="Relax the selectors of the request.",
)
DEVICE_ELSEWHERE = CODES.define(
    "DeviceElsewhere",
    Severity.ERROR,
    text="The matching devices are available to other nodes only.",
    example="0 of 8 gpu.nvidia.com devices are available to this node, 1 requested",
    remedy="Allow the pod on those nodes.",
)
NO_DEVICE_FREE = CODES.define(
    "NoDeviceFree",
    Severity.ERROR,
    text="Other claims, or other requests of the pod, use the matching devices.",
    example="no free gpu.nvidia.com device (8 of 8 in use)",
    remedy="Wait until a device is released, or request fewer devices.",
)
CAPACITY_LACKING = CODES.define(
    "CapacityLacking",
    Severity.ERROR,
    text="No matching device has enough free capacity for the request.",
    example="no gpu.nvidia.com device with 40Gi of memory free (largest free amount: 20Gi)",
    remedy="Request less capacity, or wait until a share is released.",
)
DEVICE_UNSUPPORTED = CODES.define(
    "DeviceUnsupported",
    Severity.ERROR,
    text=(
        "The matching devices need a feature gate that is not enabled in the scheduler or on the "
        "node."
    ),
    example="8 of 8 gpu.nvidia.com devices need DRAOptionalNodeOperations, which is not available",
    remedy=(
        "Enable the feature gate in the scheduler. Enable DRAOptionalNodeOperations in the kubelet "
        "of the node as well."
    ),
)
GROUP_CLASH = CODES.define(
    "GroupClash",
    Severity.ERROR,
    text=(
        "The matching devices have no compatibility group in common with the devices that are "
        "allocated on the same hardware."
    ),
    example=(
        "no gpu.nvidia.com device that is compatible with the allocated devices (active groups: "
        "mig)"
    ),
    remedy="Request a device of an active group, or wait until the other devices are released.",
)
COMPANY_CLASH = CODES.define(
    "CompanyClash",
    Severity.ERROR,
    text=(
        "A `compatibleOnlyWith` rule does not allow the matching devices to be allocated together "
        "with the devices that are already allocated."
    ),
    example="gpu-0 is compatible only with device.attributes['gpu.example.com'].mode == 'mig'",
    remedy="Request a device that the rule allows, or wait until the other devices are released.",
)
COUNTERS_LACKING = CODES.define(
    "CountersLacking",
    Severity.ERROR,
    text="The shared counters that the matching devices consume are in use.",
    example="counter memory of gpu-0-counters has 10Gi left, 20Gi needed",
    remedy="Request a smaller partition, or wait until other devices are released.",
)
DEVICE_TAINTED = CODES.define(
    "DeviceTainted",
    Severity.ERROR,
    text="The matching devices have taints that the request does not tolerate.",
    example=(
        "no gpu.nvidia.com device without an untolerated taint (8 of 8: a.io/unhealthy:NoSchedule)"
    ),
    remedy="Tolerate the taint, or repair the devices.",
)
CONSTRAINT_UNMET = CODES.define(
    "ConstraintUnmet",
    Severity.ERROR,
    text="There are enough devices, but their attributes do not satisfy a constraint of the claim.",
    example=(
        "at most 2 of 8 free gpu.nvidia.com devices have the same "
        "resource.kubernetes.io/pcieRoot, 4 requested"
    ),
    remedy="Request fewer devices, or remove the constraint.",
)
RULE_UNMET = CODES.define(
    "RuleUnmet",
    Severity.ERROR,
    text=(
        "There are enough devices, but no choice of them satisfies a required rule of the claim in "
        "the annotation drawbridge.dev/rules."
    ),
    example=(
        "no resource.kubernetes.io/pcieRoot has free devices for gpu and nic (gpu: pci0000:10; "
        "nic: pci0000:20) (joint[0])"
    ),
    remedy=(
        "Request fewer devices, or allow the pod on other nodes. Wait if devices of the group are "
        "in use."
    ),
)
TOO_FEW_TOGETHER = CODES.define(
    "TooFewTogether",
    Severity.ERROR,
    text="The node can satisfy each request alone, but not all requests together.",
    example="the requests together need more devices than the node has",
    remedy="Request fewer devices, or allow the pod on other nodes.",
)
TOO_MANY_RESULTS = CODES.define(
    "TooManyResults",
    Severity.ERROR,
    text=(
        "A claim can have at most 32 devices, but every combination of the alternatives in its "
        "requests has more."
    ),
    example="every combination of alternatives gives a claim more than 32 devices",
    remedy="Distribute the requests over several claims.",
)
POOL_UNUSABLE = CODES.define(
    "PoolUnusable",
    Severity.ERROR,
    Trait.DEPENDS_ON_SLICES,
    text="A pool cannot be used: its driver is updating it, or its slices are inconsistent.",
    example="pool gpu.example.com/node-1 is incomplete",
    remedy=(
        "Wait for the driver, or correct its slices. Run `drawbridge check -f FILE` to find the "
        "errors."
    ),
)
CLAIM_REFUSED = CODES.define(
    "ClaimRefused",
    Severity.ERROR,
    text="A claim of the pod has an error, so the scheduler cannot allocate it on any node.",
    example="claim default/c, request gpu: device class gpu does not exist",
    remedy="Correct the error in the claim that the message names.",
)
SELECTOR_FAILS = CODES.define(
    "SelectorFails",
    Severity.ERROR,
    text=(
        "A selector or a derived attribute fails on a device. With the default scheduler the pod "
        "stays pending on all nodes. In bridge placement, only the node of the device is not used."
    ),
    example="claim default/c, request gpu: selector #0 on device d/p/gpu-0: no such key: model",
    remedy=(
        'Guard attributes that some devices do not have: has(device.attributes["d.io"].model) && '
        "..."
    ),
)
CAPACITY_UNCOUNTABLE = CODES.define(
    "CapacityUncountable",
    Severity.ERROR,
    text="An amount of a capacity is negative or out of range. The pod stays pending on all nodes.",
    example="claim default/c, request gpu: capacity memory: the amount -1 is negative",
    remedy="Correct the amount in the request, or in the ResourceSlice of the device.",
)
SELECTOR_TOO_EXPENSIVE = CODES.define(
    "SelectorTooExpensive",
    Severity.WARNING,  # the stock scheduler may place the pod
    Trait.DEPENDS_ON_SLICES,
    text=(
        "A selector or a derived attribute takes more work than Drawbridge spends on one "
        "evaluation. This is a limit of Drawbridge, not of Kubernetes, and it depends on the "
        "expression and the device alone. In bridge placement the pod stays pending; the stock "
        "scheduler may place it."
    ),
    example=(
        "claim default/c, request gpu: selector #0 on device d/p/gpu-0: Drawbridge does not "
        "evaluate this expression, because it takes more work than Drawbridge spends on one; "
        "Kubernetes may evaluate it"
    ),
    remedy=(
        "Loop over fewer elements, search shorter texts, and use shorter patterns without large "
        "repetition counts."
    ),
)
NODE_SELECTOR_FAILS = CODES.define(
    "NodeSelectorFails",
    Severity.ERROR,
    Trait.DEPENDS_ON_SLICES,
    text=(
        "The node selector of a slice or a device is invalid. With the default scheduler the pod "
        "stays pending on all nodes."
    ),
    example="slice s: nodeSelectorTerms[0].matchExpressions[0]: In needs values",
    remedy="Correct the node selector in the ResourceSlice.",
)
SEARCH_GAVE_UP = CODES.define(
    "SearchGaveUp",
    Severity.ERROR,
    text="The search, or the evaluation of selectors for it, reached its limit before it found or "
    "excluded a solution, or the claims are too large for a search.",
    example="the search ended without a result after 200,000 steps",
    remedy="Request fewer devices, devices of fewer kinds, or devices with fewer and shorter "
    "selectors, constraints and rules, in each pod.",
)

CODE_BY_STAGE = {
    Stage.CLASS: NO_DEVICE_OF_CLASS,
    Stage.REQUEST: NO_DEVICE_MATCHES,
    Stage.NODE: DEVICE_ELSEWHERE,
    Stage.HELD: NO_DEVICE_FREE,
    Stage.CAPACITY: CAPACITY_LACKING,
    Stage.SUPPORT: DEVICE_UNSUPPORTED,
    Stage.GROUPS: GROUP_CLASH,
    Stage.COMPANY: COMPANY_CLASH,
    Stage.COUNTERS: COUNTERS_LACKING,
    Stage.TAINT: DEVICE_TAINTED,
    Stage.CONSTRAINT: CONSTRAINT_UNMET,
    Stage.RULE: RULE_UNMET,
}
