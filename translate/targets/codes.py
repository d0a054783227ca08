"""The findings of targets: what a claim cannot say, and what is lost in saying it."""

from collections.abc import Mapping
from typing import Final

from dra.finding import Code, Codes, Severity


def _loss(name: str, text: str, example: str, remedy: str) -> Code:
    return Code(name=name, severity=Severity.WARNING, text=text, example=example, remedy=remedy)


NOT_EXPRESSIBLE = Code(
    name="NoTargetSaysIt",
    severity=Severity.ERROR,
    text="No target that is configured or installed can say what a pod asks.",
    example="nvidia.com/gpumem: gpu.nvidia.com does not share its devices",
    remedy="Install a driver that can, or configure its target; else change what the pod asks.",
)
ISOLATION_LOST = _loss(
    "IsolationLost",
    "What keeps those who share a device apart is not enforced by the target's driver.",
    "gpu.nvidia.com counts memory and does not enforce it",
    "Use a driver that enforces it, or allow the loss of isolation in decisions.allowLossOf.",
)
EXCLUSIVITY_LOST = _loss(
    "ExclusivityLost",
    "A whole device is asked for, and the target cannot keep others from it.",
    "every device of gpu.nvidia.com is shared without limit",
    "Let the driver share otherwise, or allow the loss of exclusivity in decisions.allowLossOf.",
)
LIMITS_ENFORCED = _loss(
    "LimitsEnforced",
    "Nothing kept programs to the amounts that were asked for, and the target's driver does.",
    "who takes more memory than it asked for fails on hami-core-gpu.project-hami.io",
    "Check that the amounts are what the program takes at most.",
)
CORES_EXCLUSIVE = _loss(
    "OthersWithoutCoresJoin",
    "All cores of a device are taken, yet who asks for memory alone may still join on it.",
    "100 percent of cores and 3000Mi of memory on hami-core-gpu.project-hami.io",
    "Ask for the whole memory as well where nobody else may be on the device.",
)
CORES_LOST = _loss(
    "CoresNotLimited",
    "A part of the cores is asked for, and the target's driver does not know cores.",
    "30 percent of cores on gpu.nvidia.com",
    "Use a driver that limits cores if it matters.",
)
SHARE_WHOLE = _loss(
    "ShareTakesWhole",
    "A share is asked for, and the whole device is taken: fewer pods fit on a node.",
    "a share of a NIC takes the whole NIC on dra.net",
    "Ask for virtual functions where pods are to share a card.",
)
ALIGNMENT_LOST = _loss(
    "AlignmentLost",
    "Devices that are to be near each other may be apart.",
    "no GPU shares its PCIe root with a NIC anywhere",
    "Nothing, if the distance does not matter; else publish what relates the devices.",
)
NEIGHBOURHOOD_CHANGED = _loss(
    "NeighbourhoodChanged",
    "Devices are near each other in another sense than the pod asks.",
    "no PCIe root holds both a GPU and a NIC: they share a NUMA node instead",
    "Nothing, if the NUMA node is near enough.",
)
SHAPE_CHOSEN = _loss(
    "ShapeChosen",
    "Groups fit one shape of nodes; nodes of another shape are left out.",
    "3 groups as on 40 nodes; 2 nodes of another shape cannot hold them",
    "Nothing, if the pod is to run on those nodes only.",
)
LABEL_DROPPED = _loss(
    "DeviceLabelDropped",
    "A label of devices is asked for that no attribute is known for.",
    "type=fakeW",
    "Map the label in legacy.labels, or take it out of the pod.",
)
PRODUCTS_LEFT = _loss(
    "ProductsLeftOut",
    "A percentage is an amount for each product, and a claim has package for eight amounts.",
    "3 products are not asked for",
    "Ask for an amount of memory, or name the product.",
)
SETTING_DROPPED = _loss(
    "SettingDropped",
    "A setting of a network interface cannot be said to the target's driver.",
    "mac of default/sriov-a",
    "Set it in the network definition.",
)
ROUNDED = Code(
    name="AmountRounded",
    severity=Severity.INFO,
    text="An amount is rounded to what the driver hands out.",
    example="12.5 percent of cores becomes 13",
    remedy="Nothing.",
)

# What a loss takes away; those in GUARDED make an ask not sayable unless they are allowed.
LOSES: Final[Mapping[str, str]] = {
    ISOLATION_LOST.name: "isolation",
    EXCLUSIVITY_LOST.name: "exclusivity",
    CORES_EXCLUSIVE.name: "cores-exclusivity",
    CORES_LOST.name: "cores",
    SHARE_WHOLE.name: "density",
    ALIGNMENT_LOST.name: "alignment",
    NEIGHBOURHOOD_CHANGED.name: "neighbourhood",
    SHAPE_CHOSEN.name: "shapes",
    LABEL_DROPPED.name: "labels",
    PRODUCTS_LEFT.name: "products",
    SETTING_DROPPED.name: "settings",
}
GUARDED: Final = frozenset({"isolation", "exclusivity"})

CODES = Codes(
    "targets",
    [
        NOT_EXPRESSIBLE,
        ISOLATION_LOST,
        EXCLUSIVITY_LOST,
        LIMITS_ENFORCED,
        CORES_EXCLUSIVE,
        CORES_LOST,
        SHARE_WHOLE,
        ALIGNMENT_LOST,
        NEIGHBOURHOOD_CHANGED,
        SHAPE_CHOSEN,
        LABEL_DROPPED,
        PRODUCTS_LEFT,
        SETTING_DROPPED,
        ROUNDED,
    ],
)
