"""The finding codes of this package."""

from drawbridge.finding import Codes

CODES = Codes()

FIELD_MISSING = CODES.define("FieldMissing")
FIELD_UNKNOWN = CODES.define("FieldUnknown")
FIELD_IGNORED = CODES.define("FieldIgnored")
FIELD_MISPLACED = CODES.define("FieldMisplaced")
WRONG_TYPE = CODES.define("WrongType")
WRONG_VALUE = CODES.define("WrongValue")
MORE_ERRORS = CODES.define("MoreErrors")
UNREADABLE_JSON = CODES.define("UnreadableJSON")
WRONG_KIND = CODES.define("WrongKind")
UNSUPPORTED_VERSION = CODES.define("UnsupportedVersion")
TAINT_RULE_NARROWED = CODES.define("TaintRuleNarrowed")
FEATURE_GATE_UNKNOWN = CODES.define("FeatureGateUnknown")
FEATURE_GATE_LOCKED = CODES.define("FeatureGateLocked")
FEATURE_GATES_UNREADABLE = CODES.define("FeatureGatesUnreadable")
KUBERNETES_VERSION_UNSUPPORTED = CODES.define("KubernetesVersionUnsupported")
CLASS_NAME_UNSERVED = CODES.define("ClassNameUnserved")

MALFORMED = CODES.define("Malformed")
TOO_LONG = CODES.define("TooLong")
TOO_MANY = CODES.define("TooMany")
DUPLICATE = CODES.define("Duplicate")
EITHER_OR = CODES.define("EitherOr")
NOT_ALLOWED = CODES.define("NotAllowed")
REFERENCE_UNKNOWN = CODES.define("ReferenceUnknown")
CONSTRAINT_HALF_READ = CODES.define("ConstraintHalfRead")
REQUEST_POLICY_REFUSED = CODES.define("RequestPolicyRefused")
CAPACITY_UNUSABLE = CODES.define("CapacityUnusable")

COMPATIBILITY_ERROR = CODES.define("CompatibilityError")

RULES_UNREADABLE = CODES.define("RulesUnreadable")
RULE_NAMES_NO_REQUEST = CODES.define("RuleNamesNoRequest")
RULE_WITHOUT_NUMBER = CODES.define("RuleWithoutNumber")
