"""Finding codes of targets: requests that no claim can express, and properties that are lost."""

from collections.abc import Mapping
from typing import Final

from drawbridge.finding import Activity, Codes, Severity, Trait

CODES = Codes(Activity.TRANSLATE)


NOT_EXPRESSIBLE = CODES.define(
    "NotExpressible",
    Severity.ERROR,
    text="No configured or installed target can express what the pod requests.",
    example="nvidia.com/gpumem: gpu.nvidia.com does not share its devices",
    remedy="Configure a driver that supports it in `targets`, or change the request.",
)
QUEUE_REFUSES_REQUEST = CODES.define(
    "QueueRefusesRequest",
    Severity.ERROR,
    text=(
        "The pod waits in a queue of Kueue, and Kueue charges only requests with `exactly` and a "
        "count. It admits no workload with `firstAvailable`, `allocationMode: All` or a claim by "
        "name, or with several requests of one claim in a container (run with Kueue 0.19.2), so "
        "the pod would wait for ever."
    ),
    example=(
        "spec.containers[0]: nvidia.com/gpumem-percentage: queue training of Kueue refuses "
        "firstAvailable, and 2 kinds of devices need amounts of their own: A100, L4"
    ),
    remedy=(
        "Request a number of devices, an amount instead of a percentage, or one product. Without "
        "the label kueue.x-k8s.io/queue-name, no queue limits the pod."
    ),
)
ISOLATION_LOST = CODES.define(
    "IsolationLost",
    Severity.WARNING,
    text="The target's driver does not isolate the pods that share a device from each other.",
    example="gpu.nvidia.com does not enforce the limits of pods that share a device",
    remedy="Use a driver that enforces the limits, or add isolation to `decisions.allowLossOf`.",
    loses="isolation",
)
EXCLUSIVITY_LOST = CODES.define(
    "ExclusivityLost",
    Severity.WARNING,
    text="The pod requests a whole device, but the target cannot keep other pods off it.",
    example="gpu.nvidia.com shares every device without a limit",
    remedy="Change how the driver shares devices, or add exclusivity to `decisions.allowLossOf`.",
    loses="exclusivity",
)
VENDOR_NOT_DECLARED = CODES.define(
    "VendorNotDeclared",
    Severity.WARNING,
    Trait.ONLY_WHEN_TRANSLATED,
    text=(
        "The pod names devices of a vendor, and the first target that can serve them has a driver "
        "that Drawbridge does not know, without a `family` or a `vendor`."
    ),
    example=(
        "nvidia.com/gpu: becomes a device of fpga.example.com, of which the configuration does not "
        "say that it is a driver of nvidia devices"
    ),
    remedy=(
        "Set `vendor` of the target. For devices with a resource name of their own, set "
        "`resources` instead of `kind`."
    ),
)
LIMITS_ENFORCED = CODES.define(
    "LimitsEnforced",
    Severity.WARNING,
    text=(
        "The dialect of the pod does not enforce the requested amounts, but the target's driver "
        "does."
    ),
    example="a container that uses more than it requests fails on hami-core-gpu.project-hami.io",
    remedy="Check that the program never uses more than the requested amounts.",
)
OTHERS_WITHOUT_CORES_JOIN = CODES.define(
    "OthersWithoutCoresJoin",
    Severity.WARNING,
    text=(
        "The pod requests all cores of a device, but a pod that requests only memory can "
        "still share the device."
    ),
    example=(
        "all cores of a device of hami-core-gpu.project-hami.io are requested, but only a part of "
        "its memory, so pods that request memory without cores can share the device"
    ),
    remedy="To keep other pods off the device, request all memory as well.",
    loses="cores-exclusivity",
)
CORES_NOT_LIMITED = CODES.define(
    "CoresNotLimited",
    Severity.WARNING,
    text="The pod requests a part of the cores, but the target's driver does not limit cores.",
    example="30 percent of cores requested, but gpu.nvidia.com does not limit cores",
    remedy="Use a driver that limits cores if the pod depends on the limit.",
    loses="cores",
)
SHARE_TAKES_WHOLE = CODES.define(
    "ShareTakesWhole",
    Severity.WARNING,
    text=(
        "The pod requests a share of a device, but the claim allocates the whole device, so "
        "fewer pods fit on a node."
    ),
    example="a share of a network device takes the whole device on dra.net",
    remedy="If several pods must share a device, request partitions or virtual functions of it.",
    loses="density",
)
ALIGNMENT_LOST = CODES.define(
    "AlignmentLost",
    Severity.WARNING,
    text="The pod requests devices near each other, but the claim may get devices that are not.",
    example="no GPU shares a PCIe root with a NIC on any node",
    remedy=(
        "No action is needed if the distance does not matter. Otherwise let the driver publish an "
        "attribute that both devices share, such as resource.kubernetes.io/pcieRoot."
    ),
    loses="alignment",
)
NEIGHBOURHOOD_CHANGED = CODES.define(
    "NeighbourhoodChanged",
    Severity.WARNING,
    text="The devices are near each other by a different measure than the pod requests.",
    example="no PCIe root has both kinds of devices, so they share a NUMA node instead",
    remedy="No action is needed if the same NUMA node is near enough.",
    loses="neighbourhood",
)
SHAPE_CHOSEN = CODES.define(
    "ShapeChosen",
    Severity.WARNING,
    text=(
        "The claim has groups of devices that fit one shape of nodes. Other nodes cannot satisfy "
        "it."
    ),
    example="3 groups, as on 40 nodes; 2 other nodes have a different shape",
    remedy="No action is needed if the pod may run on the matching nodes only.",
    loses="shapes",
)
DEVICE_LABEL_DROPPED = CODES.define(
    "DeviceLabelDropped",
    Severity.WARNING,
    text="The pod requests a device label that is not mapped to an attribute.",
    example="type=fakeW: the label is not mapped to an attribute",
    remedy="Map the label in `legacy.labels`, or remove it from the pod.",
    loses="labels",
)
PRODUCTS_LEFT_OUT = CODES.define(
    "ProductsLeftOut",
    Severity.WARNING,
    text=(
        "A request can have at most eight alternatives, so some products or devices are left out. "
        "A percentage needs one alternative for each product with a different amount."
    ),
    example="3 amounts do not fit in the request, for example of A100",
    remedy="Request an amount of memory, or name the product.",
    loses="products",
)
PREFERENCE_LOST = CODES.define(
    "PreferenceLost",
    Severity.WARNING,
    text="The pod prefers some devices, but the claim cannot list them before the others.",
    example="1 preference dropped, because this API server (1.34) drops firstAvailable",
    remedy="Require the devices if the pod needs them. Otherwise no action is needed.",
    loses="preferences",
)
SETTING_DROPPED = CODES.define(
    "SettingDropped",
    Severity.WARNING,
    text="The target's driver has no field for a setting of a network interface.",
    example="mac of default/sriov-a is not supported by the driver",
    remedy="Set the value in the network definition.",
    loses="settings",
)
AMOUNT_ROUNDED = CODES.define(
    "AmountRounded",
    Severity.INFO,
    text="An amount is rounded to the step in which the driver allocates.",
    example="12.5 percent of cores becomes 13",
    remedy="No action is needed.",
)

LOSES: Final[Mapping[str, str]] = {code.name: code.loses for code in CODES.values() if code.loses}
# These losses make an ask not expressible, unless `decisions.allowLossOf` contains them.
GUARDED: Final = frozenset({"isolation", "exclusivity"})
