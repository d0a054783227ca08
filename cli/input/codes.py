"""The codes of findings about reading a cluster from the command line."""

from typing import Final

from drawbridge.finding import Codes

CODES = Codes()

CLUSTER_UNREADABLE = CODES.define("ClusterUnreadable")
PART_UNREADABLE = CODES.define("PartUnreadable")
KIND_MISSING = CODES.define("KindMissing")
CONFIGURATION_NOT_READ = CODES.define("ConfigurationNotRead")
FEATURES_ASSUMED = CODES.define("FeaturesAssumed")
SWITCH_INCOMPLETE = CODES.define("SwitchIncomplete")
# The remedy for a part that is forbidden. A repetition would be, too.
ASK_TO_SWITCH: Final = (
    "Let a cluster administrator run the command, or ask for the right that the message names: no"
    " role of Drawbridge has those of `off` and `on`, which docs/rbac.md lists."
)
POD_UNKNOWN = CODES.define("PodUnknown")
CLAIM_NOT_ADJUSTABLE = CODES.define("ClaimNotAdjustable")
DEVICE_NOT_FOUND = CODES.define("DeviceNotFound")

KUSTOMIZATION_NOT_BUILT = CODES.define("KustomizationNotBuilt")
CHART_NOT_RENDERED = CODES.define("ChartNotRendered")
RENDERED_BY_HELM = CODES.define("RenderedByHelm")
MANAGED_ELSEWHERE = CODES.define("ManagedElsewhere")
USAGE_MISSING = CODES.define("UsageMissing")
USAGE_INCOMPLETE = CODES.define("UsageIncomplete")
ALLOCATOR_NOT_ASKED = CODES.define("AllocatorNotAsked")
FILE_NOT_WRITTEN = CODES.define("FileNotWritten")
