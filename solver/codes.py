"""The codes of what the solver says where it has no solution."""

from dra.finding import Code, Codes, Severity
from solver.eligibility import Stage


def _code(name: str, text: str, example: str, remedy: str) -> Code:
    return Code(name=name, severity=Severity.ERROR, text=text, example=example, remedy=remedy)


NO_DEVICE_OF_CLASS = _code(
    "NoDeviceOfClass",
    "The node has too few devices of the class that is asked for.",
    "no device of class gpu.nvidia.com (0 of 4 devices)",
    "Ask for a class that the node's drivers serve, or let the pod go to other nodes.",
)
NO_DEVICE_MATCHES = _code(
    "NoDeviceMatches",
    "Devices of the class are there, but too few satisfy the selectors of the request.",
    "none of 8 gpu.nvidia.com matches request gpu: device.attributes[...].productName == 'H200'",
    "Loosen the selectors of the request.",
)
DEVICE_ELSEWHERE = _code(
    "DeviceElsewhere",
    "The devices that match are published for other nodes.",
    "0 of 8 gpu.nvidia.com are for this node",
    "Let the pod go to those nodes.",
)
NO_DEVICE_FREE = _code(
    "NoDeviceFree",
    "The devices that match are held by other claims, or by other requests of the pod.",
    "no free gpu.nvidia.com (8 of 8 held)",
    "Wait for a device to be released, or ask for fewer.",
)
CAPACITY_LACKING = _code(
    "CapacityLacking",
    "No device that matches has as much of a capacity left as a request takes.",
    "no gpu.nvidia.com has 40Gi memory left, the most is 20Gi",
    "Ask for less, or wait for a share to be released.",
)
DEVICE_UNSUPPORTED = _code(
    "DeviceUnsupported",
    "The devices that match need a feature that the node or the cluster does not have.",
    "8 of 8 gpu.nvidia.com need DRAOptionalNodeOperations",
    "Turn the feature on.",
)
GROUP_CLASH = _code(
    "GroupClash",
    "The devices that match do not go with what is allocated on the same hardware.",
    "8 of 8 gpu.nvidia.com do not go with what is allocated beside them (groups: mig)",
    "Ask for a device of the mode that is active, or wait until the others are released.",
)
COMPANY_CLASH = _code(
    "CompanyClash",
    "A device's rule about its company keeps the devices that match apart from those allocated.",
    "gpu-0 goes only with: device.attributes['gpu.example.com'].mode == 'mig'",
    "Ask for a device that the rule admits, or wait until the others are released.",
)
COUNTERS_LACKING = _code(
    "CountersLacking",
    "What the devices that match draw from shared counters is not there any more.",
    "counter memory of gpu-0-counters has 10Gi left, 20Gi are drawn by gpu-0-mig-2",
    "Ask for a smaller partition, or wait until others are released.",
)
DEVICE_TAINTED = _code(
    "DeviceTainted",
    "The devices that match have taints that the request does not tolerate.",
    "8 of 8 gpu.nvidia.com are tainted example.com/unhealthy:NoSchedule",
    "Tolerate the taint, or have the devices repaired.",
)
CONSTRAINT_UNMET = _code(
    "ConstraintUnmet",
    "There are devices enough, but not with attributes as a constraint of the claim wants them.",
    "at most 2 free devices have the same resource.kubernetes.io/pcieRoot, 4 are wanted",
    "Ask for fewer devices, or drop the constraint.",
)
TOO_FEW_TOGETHER = _code(
    "TooFewTogether",
    "Each request could be satisfied alone, but not all of them at once.",
    "the requests together want more devices than there are",
    "Ask for fewer devices, or let the pod go to other nodes.",
)
TOO_MANY_RESULTS = _code(
    "TooManyResults",
    "No choice of alternatives keeps a claim within 32 devices.",
    "every choice gives more than 32 devices",
    "Spread the requests over several claims.",
)
POOL_UNUSABLE = _code(
    "PoolUnusable",
    "A pool cannot be used: its driver is changing it, or what it publishes is inconsistent.",
    "pool gpu.example.com/node-1 is incomplete",
    "Wait for the driver, or have its slices repaired; drawbridge lint says what is wrong.",
)
CLAIM_REFUSED = _code(
    "ClaimRefused",
    "The scheduler reports an error for the whole pod, whatever other nodes have.",
    "claim default/c, request gpu: there is no device class gpu",
    "Change the claim.",
)
SELECTOR_FAILS = _code(
    "SelectorFails",
    "A selector, or a derived attribute, gives an error on a device: the whole pod stays pending.",
    "claim default/c, request gpu: selector #0 on device d/p/gpu-0: no such key: model",
    "Ask for the attribute with `?` or `in` before it is used.",
)
CAPACITY_UNCOUNTABLE = _code(
    "CapacityUncountable",
    "An amount cannot be computed with: the whole pod stays pending.",
    "claim default/c, request gpu: capacity memory: the amount -1 is negative",
    "Ask for another amount, or have the slice repaired.",
)
SELECTOR_OF_NODES_FAILS = _code(
    "NodeSelectorFails",
    "The node selector of a slice or a device cannot be read: the whole pod stays pending.",
    "slice s: nodeSelectorTerms[0].matchExpressions[0]: In needs values",
    "Have the slice repaired.",
)
SEARCH_GAVE_UP = _code(
    "SearchGaveUp",
    "The search took more steps than it may, so that nobody knows whether there is a solution.",
    "no answer after 200000 steps",
    "Ask for fewer devices, or for all of one kind.",
)

OF_STAGE = {
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
        *OF_STAGE.values(),
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
