"""The finding codes of device quotas."""

from drawbridge.finding import Activity, Codes, Severity, Trait

CODES = Codes(Activity.PLACE)

DEVICE_QUOTA_USED_UP = CODES.define(
    "DeviceQuotaUsedUp",
    Severity.WARNING,
    text=(
        "The claims of a pod need more than a quota of the Configuration has left for its "
        "namespace. What is reserved counts like what is allocated."
    ),
    example=(
        "quota research: namespace ml uses 7 of 8 devices of class gpu.nvidia.com, and the pod "
        "needs 2"
    ),
    remedy=(
        "Delete pods that have devices in the namespaces of the quota, or raise its `total`. The "
        "pod is tried again as soon as enough is given back."
    ),
)
DEVICE_QUOTA_TOO_SMALL = CODES.define(
    "DeviceQuotaTooSmall",
    Severity.ERROR,
    Trait.DEPENDS_ON_NAMESPACE,
    text=(
        "A pod asks for more than a quota of the Configuration allows one pod, or its namespace as "
        "a whole, so that it never gets devices."
    ),
    example=(
        "quota research allows a pod of namespace ml 2 devices of class gpu.nvidia.com, and the "
        "pod asks for 4"
    ),
    remedy="Ask for less, or raise `single` or `total` of the quota in the Configuration.",
)
