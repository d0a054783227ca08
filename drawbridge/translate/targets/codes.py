"""Finding codes of targets: requests that no claim can express, and properties that are lost."""

from collections.abc import Mapping
from typing import Final

from drawbridge.finding import Activity, Code, Codes, Severity


def _loss(name: str, text: str, example: str, remedy: str) -> Code:
    return Code(name=name, severity=Severity.WARNING, text=text, example=example, remedy=remedy)


NOT_EXPRESSIBLE = Code(
    name="NoTargetSaysIt",
    severity=Severity.ERROR,
    text="No configured or installed target can express what the pod requests.",
    example="nvidia.com/gpumem: gpu.nvidia.com does not share its devices",
    remedy=(
        "Install a driver that supports the request, configure its target, upgrade an API server "
        "that drops a field, or change the request."
    ),
)
ISOLATION_LOST = _loss(
    "IsolationLost",
    "The target's driver does not isolate the pods that share a device from each other.",
    "gpu.nvidia.com does not enforce the limits of pods that share a device",
    "Use a driver that enforces the limits, or add isolation to `decisions.allowLossOf`.",
)
EXCLUSIVITY_LOST = _loss(
    "ExclusivityLost",
    "The pod requests a whole device, but the target cannot keep other pods off it.",
    "gpu.nvidia.com shares every device without a limit",
    "Change how the driver shares devices, or add exclusivity to `decisions.allowLossOf`.",
)
LIMITS_ENFORCED = _loss(
    "LimitsEnforced",
    "The dialect of the pod does not enforce the requested amounts, but the target's driver does.",
    "a container that uses more than it requests fails on hami-core-gpu.project-hami.io",
    "Check that the program never uses more than the requested amounts.",
)
OTHERS_WITHOUT_CORES_JOIN = _loss(
    "OthersWithoutCoresJoin",
    (
        "The pod requests all cores of a device, but a pod that requests only memory can "
        "still share the device."
    ),
    (
        "all cores and a part of the memory on hami-core-gpu.project-hami.io: pods that "
        "request only memory can share the device"
    ),
    "To keep other pods off the device, request all memory as well.",
)
CORES_NOT_LIMITED = _loss(
    "CoresNotLimited",
    "The pod requests a part of the cores, but the target's driver does not limit cores.",
    "30 percent of cores requested, but gpu.nvidia.com does not limit cores",
    "Use a driver that limits cores if the pod depends on the limit.",
)
SHARE_TAKES_WHOLE = _loss(
    "ShareTakesWhole",
    (
        "The pod requests a share of a device, but the claim allocates the whole device, so "
        "fewer pods fit on a node."
    ),
    "a share of a network device takes the whole device on dra.net",
    "If several pods must share a device, request partitions or virtual functions of it.",
)
ALIGNMENT_LOST = _loss(
    "AlignmentLost",
    "The pod requests devices near each other, but the claim may get devices that are not.",
    "no GPU shares a PCIe root with a NIC on any node",
    (
        "No action is needed if the distance does not matter. Otherwise let the driver publish an "
        "attribute that both devices share, such as resource.kubernetes.io/pcieRoot."
    ),
)
NEIGHBOURHOOD_CHANGED = _loss(
    "NeighbourhoodChanged",
    "The devices are near each other by a different measure than the pod requests.",
    "no PCIe root has both kinds of devices, so they share a NUMA node instead",
    "No action is needed if the same NUMA node is near enough.",
)
SHAPE_CHOSEN = _loss(
    "ShapeChosen",
    "The claim has groups of devices that fit one shape of nodes. Other nodes cannot satisfy it.",
    "3 groups, as on 40 nodes; 2 other nodes have a different shape",
    "No action is needed if the pod may run on the matching nodes only.",
)
DEVICE_LABEL_DROPPED = _loss(
    "DeviceLabelDropped",
    "The pod requests a device label that is not mapped to an attribute.",
    "type=fakeW: the label is not mapped to an attribute",
    "Map the label in `legacy.labels`, or remove it from the pod.",
)
PRODUCTS_LEFT_OUT = _loss(
    "ProductsLeftOut",
    (
        "A request can have at most eight alternatives, so some products or devices are left out. "
        "A percentage needs one alternative for each product with a different amount."
    ),
    "3 amounts do not fit in the request, for example of A100",
    "Request an amount of memory, or name the product.",
)
PREFERENCE_LOST = _loss(
    "PreferenceLost",
    "The pod prefers some devices, but the claim cannot list them before the others.",
    "1 preference dropped, because this API server (1.34) drops firstAvailable",
    "Require the devices if the pod needs them. Otherwise no action is needed.",
)
SETTING_DROPPED = _loss(
    "SettingDropped",
    "The target's driver has no field for a setting of a network interface.",
    "mac of default/sriov-a is not supported by the driver",
    "Set the value in the network definition.",
)
AMOUNT_ROUNDED = Code(
    name="AmountRounded",
    severity=Severity.INFO,
    text="An amount is rounded to the step in which the driver allocates.",
    example="12.5 percent of cores becomes 13",
    remedy="No action is needed.",
)

# The property that each finding reports as lost. A loss in GUARDED makes an ask not expressible,
# unless `decisions.allowLossOf` contains it.
LOSES: Final[Mapping[str, str]] = {
    ISOLATION_LOST.name: "isolation",
    EXCLUSIVITY_LOST.name: "exclusivity",
    OTHERS_WITHOUT_CORES_JOIN.name: "cores-exclusivity",
    CORES_NOT_LIMITED.name: "cores",
    SHARE_TAKES_WHOLE.name: "density",
    ALIGNMENT_LOST.name: "alignment",
    NEIGHBOURHOOD_CHANGED.name: "neighbourhood",
    SHAPE_CHOSEN.name: "shapes",
    DEVICE_LABEL_DROPPED.name: "labels",
    PRODUCTS_LEFT_OUT.name: "products",
    PREFERENCE_LOST.name: "preferences",
    SETTING_DROPPED.name: "settings",
}
GUARDED: Final = frozenset({"isolation", "exclusivity"})

CODES = Codes(
    "targets",
    Activity.TRANSLATE,
    [
        NOT_EXPRESSIBLE,
        ISOLATION_LOST,
        EXCLUSIVITY_LOST,
        LIMITS_ENFORCED,
        OTHERS_WITHOUT_CORES_JOIN,
        CORES_NOT_LIMITED,
        SHARE_TAKES_WHOLE,
        ALIGNMENT_LOST,
        NEIGHBOURHOOD_CHANGED,
        SHAPE_CHOSEN,
        DEVICE_LABEL_DROPPED,
        PRODUCTS_LEFT_OUT,
        PREFERENCE_LOST,
        SETTING_DROPPED,
        AMOUNT_ROUNDED,
    ],
)
