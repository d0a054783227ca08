"""Finding codes of the solver: the reasons why claims have no solution."""

from dra.finding import Code, Codes, Severity
from solver.eligibility import Stage


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
    "The matching devices need a feature that the node or the cluster does not have.",
    "no gpu.nvidia.com device that does not need DRAOptionalNodeOperations",
    "Enable the feature.",
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
    "A `compatibleOnlyWith` rule excludes the matching devices beside the allocated devices.",
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
TOO_FEW_TOGETHER = _code(
    "TooFewTogether",
    "The node can satisfy each request alone, but not all requests together.",
    "the requests together need more devices than the node has",
    "Request fewer devices, or allow the pod on other nodes.",
)
TOO_MANY_RESULTS = _code(
    "TooManyResults",
    "Every combination of alternatives gives a claim more than 32 devices.",
    "every combination of alternatives gives a claim more than 32 devices",
    "Distribute the requests over several claims.",
)
POOL_UNUSABLE = _code(
    "PoolUnusable",
    "A pool cannot be used: its driver is updating it, or its slices are inconsistent.",
    "pool gpu.example.com/node-1 is incomplete",
    "Wait for the driver, or repair its slices. Run `drawbridge lint` to find what is wrong.",
)
CLAIM_REFUSED = _code(
    "ClaimRefused",
    "The scheduler reports an error for the whole pod, on every node.",
    "claim default/c, request gpu: device class gpu does not exist",
    "Change the claim.",
)
SELECTOR_FAILS = _code(
    "SelectorFails",
    "A selector or a derived attribute fails on a device. The pod stays pending on all nodes.",
    "claim default/c, request gpu: selector #0 on device d/p/gpu-0: no such key: model",
    "Check with `?` or `in` that the attribute exists before you use it.",
)
CAPACITY_UNCOUNTABLE = _code(
    "CapacityUncountable",
    "An amount is not usable in calculations. The pod stays pending on all nodes.",
    "claim default/c, request gpu: capacity memory: the amount -1 is negative",
    "Request another amount, or repair the slice.",
)
SELECTOR_OF_NODES_FAILS = _code(
    "NodeSelectorFails",
    "The node selector of a slice or a device is invalid. The pod stays pending on all nodes.",
    "slice s: nodeSelectorTerms[0].matchExpressions[0]: In needs values",
    "Repair the slice.",
)
SEARCH_GAVE_UP = _code(
    "SearchGaveUp",
    "The search reached its step limit before it found or excluded a solution.",
    "no result after 200000 search steps",
    "Request fewer devices, or request all of one kind.",
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
}

CODES = Codes(
    "solver",
    [
        *CODE_BY_STAGE.values(),
        TOO_FEW_TOGETHER,
        TOO_MANY_RESULTS,
        POOL_UNUSABLE,
        CLAIM_REFUSED,
        SELECTOR_FAILS,
        CAPACITY_UNCOUNTABLE,
        SELECTOR_OF_NODES_FAILS,
        SEARCH_GAVE_UP,
    ],
)
