"""The codes of findings about an installation and the rights of the caller."""

from typing import Final

from drawbridge.finding import Codes

CODES = Codes()

NOT_CHECKED = CODES.define("NotChecked")
# The remedy where no right is missing.
CORRECT_WHAT_IS_NAMED: Final = (
    "Correct what the message names, for example the namespace of `-n`. No right is missing."
)
NOT_INSTALLED = CODES.define("NotInstalled")
LEFT_BEHIND = CODES.define("LeftBehind")
REPLICAS_NOT_READY = CODES.define("ReplicasNotReady")
FIELD_NOT_STORED = CODES.define("FieldNotStored")
NO_DRIVER_PUBLISHES = CODES.define("NoDriverPublishes")
CLASS_SELECTS_NOTHING = CODES.define("ClassSelectsNothing")
QUOTA_NAMESPACE_MISSING = CODES.define("QuotaNamespaceMissing")
NOTHING_IN_SCOPE = CODES.define("NothingInScope")
CERTIFICATE_EXPIRES = CODES.define("CertificateExpires")
CERTIFICATE_UNUSABLE = CODES.define("CertificateUnusable")
WEBHOOK_UNREACHABLE = CODES.define("WebhookUnreachable")
# The remedy where the API server reaches the webhook and does not trust it.
TRUST_CERTIFICATE: Final = (
    "If an unknown authority signed the certificate, compare the caBundle of the webhooks with the "
    "CA that did, of Secret drawbridge-ca or your own: "
    "docs/installing.md#change-who-makes-the-certificates. If it has expired or is valid for other "
    "names, replace it in Secret drawbridge-webhook-tls."
)
WEBHOOK_NOT_CALLED = CODES.define("WebhookNotCalled")
WEBHOOK_NOT_TRIED = CODES.define("WebhookNotTried")
FACTS_MISSING = CODES.define("FactsMissing")
LEADER_MISSING = CODES.define("LeaderMissing")
SCHEDULER_MISSING = CODES.define("SchedulerMissing")
RIGHT_MISSING = CODES.define("RightMissing")
