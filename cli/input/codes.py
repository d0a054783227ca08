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
# The remedies for lists that are forbidden: the smallest role that has them.
ASK_FOR_READER: Final = (
    "Ask for ClusterRole `drawbridge-reader` with a ClusterRoleBinding, or pass files with"
    " `--cluster` and without `--context`."
)
ASK_FOR_VIEW: Final = (
    "Ask for ClusterRole `view` with a RoleBinding in namespace {namespace}, or pass files with"
    " `-f`."
)
ASK_FOR_FACTS: Final = (
    "Ask for Role `drawbridge-reader` with a RoleBinding in {where}: the published facts then"
    " decide. ClusterRole `drawbridge-reader` with a ClusterRoleBinding has the lists."
)
ASK_ABOUT_FACTS: Final = (
    "Let the cluster administrator run `drawbridge doctor`, which says what is wrong with the"
    " facts. ClusterRole `drawbridge-reader` with a ClusterRoleBinding has the lists."
)
ASK_FOR_LISTS: Final = (
    "Ask for the right to list them, or pass files with `--cluster` and without `--context`."
)
ASK_WITHOUT_GATES: Final = (
    "Leave these options out. ClusterRole `drawbridge-reader` with a ClusterRoleBinding has the"
    " lists."
)
ASK_FOR_RIGHT: Final = (
    "Ask for the right that the message names: docs/rbac.md says which role each command needs."
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
