"""The finding codes about the operation of Drawbridge: events of the controller and allocator."""

from drawbridge.finding import Codes

CODES = Codes()

# The cluster and the translated pods.

SERVER_VERSION_UNKNOWN = CODES.define("ServerVersionUnknown")
CONFIGURATION_REJECTED = CODES.define("ConfigurationRejected")
PROBE_REFUSED = CODES.define("ProbeRefused")
OPERANDS_ON_DRIVER_NODES = CODES.define("OperandsOnDriverNodes")
TWO_GPU_MODELS = CODES.define("TwoGpuModels")
OPERANDS_KEPT_OFF = CODES.define("OperandsKeptOff")
AUTOSCALER_IGNORES_CLAIMS = CODES.define("AutoscalerIgnoresClaims")
AUTOSCALER_IGNORES_NAMES = CODES.define("AutoscalerIgnoresNames")
AUTOSCALER_IGNORES_RULES = CODES.define("AutoscalerIgnoresRules")
AUTOSCALER_LACKS_DEVICES = CODES.define("AutoscalerLacksDevices")
AUTOSCALER_LIMITS = CODES.define("AutoscalerLimits")
NODES_UNLIKE = CODES.define("NodesUnlike")
NODES_NOT_EXPECTED = CODES.define("NodesNotExpected")
NAME_NOT_ACTIVE = CODES.define("NameNotActive")
SWITCHED_OFF = CODES.define("SwitchedOff")
DUAL_NODES = CODES.define("DualNodes")
DUAL_NODES_HELD = CODES.define("DualNodesHeld")
OTHER_WEBHOOK = CODES.define("OtherWebhook")
TEMPLATE_NOT_REPRODUCED = CODES.define("TemplateNotReproduced")
TEMPLATE_OUT_OF_SCOPE = CODES.define("TemplateOutOfScope")
CLAIM_CHANGED = CODES.define("ClaimChanged")
QUOTA_MIRRORED = CODES.define("QuotaMirrored")
QUOTA_DOES_NOT_BIND = CODES.define("QuotaDoesNotBind")
QUOTA_COUNTS_DEVICES = CODES.define("QuotaCountsDevices")
QUOTA_NOT_OWNED = CODES.define("QuotaNotOwned")
QUOTA_REFUSED = CODES.define("QuotaRefused")

# Owned nodes and pools.

FENCE_MISSING = CODES.define("FenceMissing")
FENCE_WITHOUT_RULES = CODES.define("FenceWithoutRules")
FENCE_RULE_REFUSED = CODES.define("FenceRuleRefused")
FENCE_DISAGREES = CODES.define("FenceDisagrees")
FENCE_AROUND_ALL_NODES = CODES.define("FenceAroundAllNodes")
OWNED_NODES_MISSING = CODES.define("OwnedNodesMissing")
OWNED_DRIVER_MISSING = CODES.define("OwnedDriverMissing")
POOL_NOT_LOCAL = CODES.define("PoolNotLocal")
POOLS_NOT_OWNED = CODES.define("PoolsNotOwned")
TOO_MANY_SLICES = CODES.define("TooManySlices")

# The certificate authority.

AUTHORITY_ROTATED = CODES.define("AuthorityRotated")
AUTHORITY_RESTORED = CODES.define("AuthorityRestored")
SECRET_NOT_OWNED = CODES.define("SecretNotOwned")
SECRET_REFUSED = CODES.define("SecretRefused")
USAGE_BOOK_UNREADABLE = CODES.define("UsageBookUnreadable")
CONFIG_MAP_REFUSED = CODES.define("ConfigMapRefused")
BUNDLE_MANAGED_ELSEWHERE = CODES.define("BundleManagedElsewhere")
