"""The finding codes of the certificate authority."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.OPERATE)

AUTHORITY_ROTATED = CODES.define(
    "AuthorityRotated",
    Severity.INFO,
    text=(
        "The leading controller made a certificate authority (CA), the webhooks now use "
        "certificates of the new one, or the old one expired."
    ),
    example=(
        "CA 3f2a9c1e5b7d8a60 signs the serving certificates now; it is valid until "
        "2027-11-21T02:48:28Z"
    ),
    remedy="No action is needed.",
)
AUTHORITY_RESTORED = CODES.define(
    "AuthorityRestored",
    Severity.WARNING,
    text=(
        "The Secret drawbridge-ca was deleted, damaged or replaced. The leading controller wrote "
        "it again from its memory. If it did not remember the CA, it made another one."
    ),
    example="Secret drawbridge-ca: tls.key is missing; the controller wrote it again",
    remedy="Find out who changed the Secret; only the controller may write it.",
)
SECRET_NOT_OWNED = CODES.define(
    "SecretNotOwned",
    Severity.WARNING,
    text=(
        "A Secret with the name drawbridge-ca exists that Drawbridge did not write. The controller "
        "does not overwrite it. Running processes continue with the CA that they know, until it "
        "expires. A process that starts does not become ready."
    ),
    example="Secret drawbridge-ca was not written by Drawbridge",
    remedy=(
        "Keep a copy of the Secret if somebody needs it, then delete it. The controller creates "
        "its own at once."
    ),
)
BUNDLE_MANAGED_ELSEWHERE = CODES.define(
    "BundleManagedElsewhere",
    Severity.WARNING,
    text=(
        "A webhook configuration has an annotation of cert-manager that sets its caBundle, and the "
        "controller makes certificates as well. The controller leaves the caBundle alone."
    ),
    example=(
        "MutatingWebhookConfiguration drawbridge has an annotation with which cert-manager sets "
        "its caBundle"
    ),
    remedy=(
        "Remove the annotation, or start the controller with --certificates=external and the "
        "webhook with --tls-cert and --tls-key."
    ),
)
