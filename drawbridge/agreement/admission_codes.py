"""The finding codes of the webhook."""

from drawbridge.finding import Codes, Trait

CODES = Codes()

SCOPE_LABEL_UNKNOWN = CODES.define("ScopeLabelUnknown")
PLACEMENT_LABEL_UNKNOWN = CODES.define("PlacementLabelUnknown")
POD_LABEL_UNKNOWN = CODES.define("PodLabelUnknown")
TEMPLATE_TAKEN = CODES.define("TemplateTaken", Trait.DEPENDS_ON_NAMESPACE)
CLAIM_FIELD_DROPPED = CODES.define("ClaimFieldDropped")
TEMPLATE_CHANGED = CODES.define("TemplateChanged", Trait.DEPENDS_ON_NAMESPACE)
TEMPLATE_LATER = CODES.define("TemplateLater")
TEMPLATE_REFUSED = CODES.define("TemplateRefused")
LIMIT_RANGE_EXCEEDED = CODES.define("LimitRangeExceeded", Trait.DEPENDS_ON_NAMESPACE)
LIMIT_RANGE_UNMEETABLE = CODES.define("LimitRangeUnmeetable", Trait.DEPENDS_ON_NAMESPACE)
LIMIT_RANGE_TOO_LARGE = CODES.define("LimitRangeTooLarge", Trait.DEPENDS_ON_NAMESPACE)
QUOTA_EXCEEDED = CODES.define("QuotaExceeded", Trait.DEPENDS_ON_NAMESPACE)
QUOTA_NOT_ON_CLAIMS = CODES.define("QuotaNotOnClaims")
QUOTA_TOO_LARGE = CODES.define("QuotaTooLarge")
DEVICES_FIXED = CODES.define("DevicesFixed")
HINT_WITHOUT_EFFECT = CODES.define("HintWithoutEffect")
REQUESTS_ADDED_LATE = CODES.define("RequestsAddedLate")
