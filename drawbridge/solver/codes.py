"""Finding codes of the solver: the reasons why claims have no solution."""

from drawbridge.finding import Activity, Code, Codes, Severity
from drawbridge.solver.eligibility import Stage


def _code(name: str, text: str, example: str, remedy: str) -> Code:
    return Code(name=name, severity=Severity.ERROR, text=text, example=example, remedy=remedy)


NO_DEVICE_OF_CLASS = _code(
    "NoDeviceOfClass",
    "The node has too few devices of the requested class.",
    "no device of class gpu.nvidia.com (0 of 4 devices)",
    "Request a class that the node's drivers serve, or allow the pod on other nodes.",
)
NO_DEVICE_MATCHES = _code(
    "NoDeviceMatches",
    "The node has devices of the class, but too few match the selectors of the request.",
    "none of 8 gpu.nvidia.com devices matches: device.attributes[...].productName == 'H200'",
    "Relax the selectors of the request.",
)
DEVICE_ELSEWHERE = _code(
    "DeviceElsewhere",
    "The matching devices are available to other nodes only.",
    "0 of 8 gpu.nvidia.com devices are available to this node, 1 requested",
    "Allow the pod on those nodes.",
)
NO_DEVICE_FREE = _code(
    "NoDeviceFree",
    "Other claims, or other requests of the pod, use the matching devices.",
    "no free gpu.nvidia.com device (8 of 8 in use)",
    "Wait until a device is released, or request fewer devices.",
)
CAPACITY_LACKING = _code(
    "CapacityLacking",
    "No matching device has enough free capacity for the request.",
    "no gpu.nvidia.com device with 40Gi of memory free (largest free amount: 20Gi)",
    "Request less capacity, or wait until a share is released.",
)
DEVICE_UNSUPPORTED = _code(
    "DeviceUnsupported",
    "The matching devices need a feature gate that is not enabled in the scheduler or on the node.",
    "8 of 8 gpu.nvidia.com devices need DRAOptionalNodeOperations, which is not available",
    "Enable the feature gate in the scheduler. Enable DRAOptionalNodeOperations in the kubelet of "
    "the node as well.",
)
GROUP_CLASH = _code(
    "GroupClash",
    "The matching devices have no compatibility group in common with the devices that are "
    "allocated on the same hardware.",
    "no gpu.nvidia.com device that is compatible with the allocated devices (active groups: mig)",
    "Request a device of an active group, or wait until the other devices are released.",
)
COMPANY_CLASH = _code(
    "CompanyClash",
    "A `compatibleOnlyWith` rule forbids to allocate the matching devices together with the "
    "devices that are already allocated.",
    "gpu-0 is compatible only with device.attributes['gpu.example.com'].mode == 'mig'",
    "Request a device that the rule allows, or wait until the other devices are released.",
)
COUNTERS_LACKING = _code(
    "CountersLacking",
    "The shared counters that the matching devices consume are in use.",
    "counter memory of gpu-0-counters has 10Gi left, 20Gi needed",
    "Request a smaller partition, or wait until other devices are released.",
)
DEVICE_TAINTED = _code(
    "DeviceTainted",
    "The matching devices have taints that the request does not tolerate.",
    "no gpu.nvidia.com device without an untolerated taint (8 of 8: a.io/unhealthy:NoSchedule)",
    "Tolerate the taint, or repair the devices.",
)
CONSTRAINT_UNMET = _code(
    "ConstraintUnmet",
    "There are enough devices, but their attributes do not satisfy a constraint of the claim.",
    "at most 2 of 8 free gpu.nvidia.com devices have the same "
    "resource.kubernetes.io/pcieRoot, 4 requested",
    "Request fewer devices, or remove the constraint.",
)
RULE_UNMET = _code(
    "RuleUnmet",
    "There are enough devices, but no choice of them satisfies a required rule of the claim in "
    "the annotation drawbridge.dev/rules.",
    "no resource.kubernetes.io/pcieRoot has free devices for gpu and nic (gpu: pci0000:10; nic: "
    "pci0000:20) (joint[0])",
    "Request fewer devices, or allow the pod on other nodes. Wait if devices of the group are in "
    "use.",
)
TOO_FEW_TOGETHER = _code(
    "TooFewTogether",
    "The node can satisfy each request alone, but not all requests together.",
    "the requests together need more devices than the node has",
    "Request fewer devices, or allow the pod on other nodes.",
)
TOO_MANY_RESULTS = _code(
    "TooManyResults",
    "A claim can have at most 32 devices, but every combination of the alternatives in its "
    "requests has more.",
    "every combination of alternatives gives a claim more than 32 devices",
    "Distribute the requests over several claims.",
)
POOL_UNUSABLE = _code(
    "PoolUnusable",
    "A pool cannot be used: its driver is updating it, or its slices are inconsistent.",
    "pool gpu.example.com/node-1 is incomplete",
    "Wait for the driver, or correct its slices. Run `drawbridge lint -f FILE` to find the errors.",
)
CLAIM_REFUSED = _code(
    "ClaimRefused",
    "A claim of the pod has an error, so the scheduler cannot allocate it on any node.",
    "claim default/c, request gpu: device class gpu does not exist",
    "Correct the error in the claim that the message names.",
)
SELECTOR_FAILS = _code(
    "SelectorFails",
    "A selector or a derived attribute fails on a device. The pod stays pending on all nodes.",
    "claim default/c, request gpu: selector #0 on device d/p/gpu-0: no such key: model",
    'Guard attributes that not every device has: has(device.attributes["d.io"].model) && ...',
)
CAPACITY_UNCOUNTABLE = _code(
    "CapacityUncountable",
    "An amount of a capacity is negative or out of range. The pod stays pending on all nodes.",
    "claim default/c, request gpu: capacity memory: the amount -1 is negative",
    "Correct the amount in the request, or in the ResourceSlice of the device.",
)
NODE_SELECTOR_FAILS = _code(
    "NodeSelectorFails",
    "The node selector of a slice or a device is invalid. The pod stays pending on all nodes.",
    "slice s: nodeSelectorTerms[0].matchExpressions[0]: In needs values",
    "Correct the node selector in the ResourceSlice.",
)
SEARCH_GAVE_UP = _code(
    "SearchGaveUp",
    "The search reached its step limit before it found or excluded a solution.",
    "no result after 200000 search steps",
    "Request fewer devices, or request devices of fewer kinds.",
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

CODES = Codes(
    "solver",
    Activity.PLACE,
    [
        *CODE_BY_STAGE.values(),
        TOO_FEW_TOGETHER,
        TOO_MANY_RESULTS,
        POOL_UNUSABLE,
        CLAIM_REFUSED,
        SELECTOR_FAILS,
        CAPACITY_UNCOUNTABLE,
        NODE_SELECTOR_FAILS,
        SEARCH_GAVE_UP,
    ],
)
