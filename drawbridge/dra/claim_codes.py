"""The finding codes of claims that no published device satisfies."""

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
