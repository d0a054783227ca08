"""Finding codes about claims, templates and the pods that use them."""

from drawbridge.finding import Codes

CODES = Codes()

# Claims that the API server rejects or that no devices can ever satisfy.

ADMIN_ACCESS_DENIED = CODES.define("AdminAccessDenied")
CONSTRAINTS_CONTRADICT = CODES.define("ConstraintsContradict")
TOO_MANY_DEVICES = CODES.define("TooManyDevices")

# References to other objects, and quotas.

CLASS_NOT_FOUND = CODES.define("ClassNotFound")
CLASS_MISSPELT = CODES.define("ClassMisspelt")
CLAIM_NOT_FOUND = CODES.define("ClaimNotFound")
REQUEST_NOT_FOUND = CODES.define("RequestNotFound")
CONTAINER_CLAIM_UNKNOWN = CODES.define("ContainerClaimUnknown")
POD_CLAIM_INVALID = CODES.define("PodClaimInvalid")

QUOTA_TOO_SMALL = CODES.define("QuotaTooSmall")
QUOTA_USED_UP = CODES.define("QuotaUsedUp")
QUOTA_OF_LEGACY_NAME = CODES.define("QuotaOfLegacyName")

# What the selectors of claims read of devices.

READ_UNGUARDED = CODES.define("ReadUnguarded")
SELECTOR_MAY_FAIL = CODES.define("SelectorMayFail")

# Opaque configurations for drivers.

CONFIG_INVALID = CODES.define("ConfigInvalid")
CONFIG_REFUSED = CODES.define("ConfigRefused")
CONFIG_ENDS_DRIVER = CODES.define("ConfigEndsDriver")
CONFIG_OTHER_DRIVER = CODES.define("ConfigOtherDriver")
CONFIG_KIND_WRONG = CODES.define("ConfigKindWrong")
CONFIG_KIND_TWICE = CODES.define("ConfigKindTwice")
CONFIG_VERSION_UNKNOWN = CODES.define("ConfigVersionUnknown")
CONFIG_ON_MAIN_REQUEST = CODES.define("ConfigOnMainRequest")
CONFIG_NEEDS_GATE = CODES.define("ConfigNeedsGate")
CONFIG_UNUSED = CODES.define("ConfigUnused")
CONFIG_ON_ADMIN_ACCESS = CODES.define("ConfigOnAdminAccess")

# Claims and the published devices.

DEVICE_NEVER_ALLOCATED = CODES.define("DeviceNeverAllocated")
DEVICES_NEVER_TOGETHER = CODES.define("DevicesNeverTogether")
CONSTRAINT_NEVER_MET = CODES.define("ConstraintNeverMet")
EVERY_DEVICE_TAINTED = CODES.define("EveryDeviceTainted")
NO_ROOM_NOW = CODES.define("NoRoomNow")
JUDGEMENT_INCOMPLETE = CODES.define("JudgementIncomplete")
