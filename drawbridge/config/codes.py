"""The finding codes of this package."""

from drawbridge.finding import Codes

CODES = Codes()

SELECTOR_CONTRADICTORY = CODES.define("SelectorContradictory")
ENTRY_WITHOUT_EFFECT = CODES.define("EntryWithoutEffect")
RESOURCE_NAME_TAKEN = CODES.define("ResourceNameTaken")
DRIVER_OF_OTHER_KIND = CODES.define("DriverOfOtherKind")
TARGET_NOT_PUBLISHED = CODES.define("TargetNotPublished")
TARGET_CLASS_MISSING = CODES.define("TargetClassMissing")
QUOTA_NOT_PUBLISHED = CODES.define("QuotaNotPublished")
SHAPE_NOT_PUBLISHED = CODES.define("ShapeNotPublished")
WEIGHT_NOT_PUBLISHED = CODES.define("WeightNotPublished")
TARGET_OF_OTHER_DRIVER = CODES.define("TargetOfOtherDriver")
UNIT_WITHOUT_USE = CODES.define("UnitWithoutUse")
BRIDGE_NOT_USED = CODES.define("BridgeNotUsed")
PARTITIONS_OVERLAP = CODES.define("PartitionsOverlap")
CONFIGURATION_EXPRESSION_WRONG = CODES.define("ConfigurationExpressionWrong")
OWNED_POOLS_MISSING = CODES.define("OwnedPoolsMissing")
OWNED_POOLS_DISAGREE = CODES.define("OwnedPoolsDisagree")
CONFIGURATION_NOT_ONE = CODES.define("ConfigurationNotOne")
