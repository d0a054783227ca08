"""Finding codes of targets: requests that no claim can express, and properties that are lost."""

from collections.abc import Mapping
from typing import Final

from drawbridge.finding import Codes, Trait

CODES = Codes()


NOT_EXPRESSIBLE = CODES.define("NotExpressible")
QUEUE_REFUSES_REQUEST = CODES.define("QueueRefusesRequest")
ISOLATION_LOST = CODES.define("IsolationLost", loses="isolation")
EXCLUSIVITY_LOST = CODES.define("ExclusivityLost", loses="exclusivity")
VENDOR_NOT_DECLARED = CODES.define("VendorNotDeclared", Trait.ONLY_WHEN_TRANSLATED)
LIMITS_ENFORCED = CODES.define("LimitsEnforced")
OTHERS_WITHOUT_CORES_JOIN = CODES.define("OthersWithoutCoresJoin", loses="cores-exclusivity")
CORES_NOT_LIMITED = CODES.define("CoresNotLimited", loses="cores")
SHARE_TAKES_WHOLE = CODES.define("ShareTakesWhole", loses="density")
ALIGNMENT_LOST = CODES.define("AlignmentLost", loses="alignment")
NEIGHBOURHOOD_CHANGED = CODES.define("NeighbourhoodChanged", loses="neighbourhood")
SHAPE_CHOSEN = CODES.define("ShapeChosen", loses="shapes")
DEVICE_LABEL_DROPPED = CODES.define("DeviceLabelDropped", loses="labels")
PRODUCTS_LEFT_OUT = CODES.define("ProductsLeftOut", loses="products")
PREFERENCE_LOST = CODES.define("PreferenceLost", loses="preferences")
SETTING_DROPPED = CODES.define("SettingDropped", loses="settings")
AMOUNT_ROUNDED = CODES.define("AmountRounded")

LOSES: Final[Mapping[str, str]] = {code.name: code.loses for code in CODES.values() if code.loses}
# These losses make an ask not expressible, unless `decisions.allowLossOf` contains them.
GUARDED: Final = frozenset({"isolation", "exclusivity"})
