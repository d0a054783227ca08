"""Finding codes of claims and pods that the published devices decide."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.WRITE_CLAIMS)

DEVICE_NEVER_MATCHES = CODES.define(
    "DeviceNeverMatches",
    Severity.ERROR,
    text=(
        "No published device of the class satisfies the selectors of a request. The message names "
        "the part of the selectors that the best devices do not satisfy, and what is published."
    ),
    example=(
        "spec.devices.requests[0].exactly.selectors[0]: no gpu.nvidia.com device satisfies "
        'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("96Gi")) >= 0: the largest '
        "memory is 80Gi"
    ),
    remedy="Request a value that is published.",
)
CAPACITY_NEVER_FITS = CODES.define(
    "CapacityNeverFits",
    Severity.ERROR,
    text=(
        "No published device of the class can give a requested capacity: it does not have the "
        "capacity, it has less, or its request policy does not allow the amount."
    ),
    example=(
        "spec.devices.requests[0].exactly.capacity.requests[memory]: the largest gpu.nvidia.com "
        "device has 80Gi of memory, 96Gi requested"
    ),
    remedy="Request an amount that a device can give.",
)
COUNT_NEVER_FITS = CODES.define(
    "CountNeverFits",
    Severity.ERROR,
    text=(
        "A request needs more devices than any node has. All devices of a pod must be available to "
        "one node, and a claim has at most 32 devices."
    ),
    example=(
        "spec.devices.requests[0].exactly.count: 16 gpu.nvidia.com devices requested, but no node "
        "has more than 8 that match"
    ),
    remedy="Request fewer devices for each pod, and run more pods.",
)
DEVICE_NEVER_ALLOCATED = CODES.define(
    "DeviceNeverAllocated",
    Severity.ERROR,
    text=(
        "Devices match a request, but none of them can ever be allocated, for example because a "
        "device consumes more of a counter than there is."
    ),
    example=(
        "spec.devices.requests[0]: 2 gpu.example.com devices match, but none can be allocated: "
        "counter memory of gpu-0 has 40Gi left, 80Gi needed"
    ),
    remedy="Correct the driver of the devices, or request other devices.",
)
DEVICES_NEVER_TOGETHER = CODES.define(
    "DevicesNeverTogether",
    Severity.ERROR,
    text=(
        "Each part of a claim or pod has suitable devices, but no node can give all parts at the "
        "same time: too few devices, or the devices exclude each other by counters, compatibility "
        "groups or `compatibleOnlyWith`."
    ),
    example=(
        "spec.devices.requests: no node can satisfy requests whole, half together: no "
        "gpu.example.com device with enough free counters: counter memory of gpu-0 has 0 left, "
        "40Gi needed"
    ),
    remedy="Request devices that one node can give together, or use several pods.",
)
CONSTRAINT_NEVER_MET = CODES.define(
    "ConstraintNeverMet",
    Severity.ERROR,
    text="No node has devices that satisfy a constraint of a claim.",
    example=(
        "spec.devices.constraints[0]: no node has devices for requests gpu, nic with the same "
        "resource.kubernetes.io/pcieRoot"
    ),
    remedy="Remove the constraint, or align by an attribute that more devices share.",
)
CLASS_WITHOUT_DEVICES = CODES.define(
    "ClassWithoutDevices",
    Severity.WARNING,
    text="A request names a DeviceClass that selects no published device.",
    example=(
        "spec.devices.requests[0].exactly.deviceClassName: class vfio.gpu.nvidia.com selects none "
        "of the published devices"
    ),
    remedy="Check that the driver runs and that its pools are complete, or name another class.",
)
EVERY_DEVICE_TAINTED = CODES.define(
    "EveryDeviceTainted",
    Severity.WARNING,
    text=(
        "Suitable devices are published, but all of them have a taint that the request does not "
        "tolerate. The pod waits until the taint is removed."
    ),
    example=(
        "spec.devices: no node has suitable devices without a taint: no gpu.example.com device "
        "without an untolerated taint (8 of 8: example.com/unhealthy:NoSchedule)"
    ),
    remedy="Wait until the taint is removed, or add a toleration to the request.",
)
NO_ROOM_NOW = CODES.define(
    "NoRoomNow",
    Severity.WARNING,
    text=(
        "Nodes have suitable devices, but other claims use them. The pod waits until devices are "
        "released."
    ),
    example="spec.devices: no room now: 4 nodes: no free gpu.nvidia.com device (8 of 8 in use)",
    remedy="Wait until devices are released, or request fewer devices.",
)
JUDGEMENT_INCOMPLETE = CODES.define(
    "JudgementIncomplete",
    Severity.WARNING,
    text="Drawbridge cannot decide whether the published devices can satisfy a claim or pod.",
    example="spec.devices: cannot be decided: the search on node a reached its limit",
    remedy="Run `drawbridge simulate` on the object, or simplify its requests and constraints.",
)
