"""The codes of findings about an installation and the rights of the caller."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.OPERATE)

NOT_CHECKED = CODES.define(
    "NotChecked",
    Severity.WARNING,
    text="You are not allowed to read an object that a check of `drawbridge doctor` needs.",
    example='nodes is forbidden: User "jane" cannot list resource "nodes" in API group ""',
    remedy=(
        "Ask the cluster administrator for the roles drawbridge-reader, or let the administrator "
        "run the command."
    ),
)
NOT_INSTALLED = CODES.define(
    "NotInstalled",
    Severity.WARNING,
    text=(
        "The cluster has no installation of Drawbridge, so `drawbridge doctor` checks only what an "
        "installation would need."
    ),
    example="the cluster has no object of Drawbridge",
    remedy="Install Drawbridge as docs/installing.md says.",
)
REPLICAS_NOT_READY = CODES.define(
    "ReplicasNotReady",
    Severity.WARNING,
    text=(
        "A Deployment of Drawbridge is missing, is scaled to zero, or has fewer ready replicas "
        "than it wants. While no replica of drawbridge-judge is ready, claims are admitted without "
        "a judgement."
    ),
    example="drawbridge-judge 0 of 2 ready",
    remedy="Read the events and the logs of its pods, and its readiness endpoint /readyz.",
)
FIELD_NOT_STORED = CODES.define(
    "FieldNotStored",
    Severity.WARNING,
    text=(
        "The API server drops a field of claims that its version stores by default. Requests that "
        "need the field are refused."
    ),
    example="the API server drops exactly.capacity, although Kubernetes 1.36 stores it by default",
    remedy="Enable the feature gate on the API server, the controller manager and the scheduler.",
)
NO_DRIVER_PUBLISHES = CODES.define(
    "NoDriverPublishes",
    Severity.WARNING,
    text="The cluster has no ResourceSlice, so no device can be allocated to a claim.",
    example="no ResourceSlice in the cluster",
    remedy="Install the DRA driver of your devices, and check that its pods run on the nodes.",
)
CLASS_SELECTS_NOTHING = CODES.define(
    "ClassSelectsNothing",
    Severity.WARNING,
    text="A DeviceClass selects no published device, so no claim for it can be allocated.",
    example="DeviceClass vfio.gpu.nvidia.com selects none of 74 devices",
    remedy="Check that the driver of the class runs, or delete the class.",
)
QUOTA_NAMESPACE_MISSING = CODES.define(
    "QuotaNamespaceMissing",
    Severity.WARNING,
    text="A quota names a namespace that does not exist, and limits nothing there.",
    example="quotas[0].namespaces[1]: namespace reserch does not exist",
    remedy="Correct the name in the configuration, or create the namespace.",
)
NOTHING_IN_SCOPE = CODES.define(
    "NothingInScope",
    Severity.WARNING,
    text="No namespace is opted in, so Drawbridge translates no pod.",
    example="0 of 12 namespaces are opted in",
    remedy=(
        "Run `kubectl label namespace NAMESPACE drawbridge.dev/translate=report` to see warnings, "
        "and `=enforce` to translate pods."
    ),
)
CERTIFICATE_EXPIRES = CODES.define(
    "CertificateExpires",
    Severity.WARNING,
    text="All certificates in the `caBundle` of a webhook expire soon.",
    example="pods.drawbridge.dev: caBundle expires in 3 days, on 2026-11-24 10:00 UTC",
    remedy=(
        "Check that drawbridge-controller runs and has a leader, because it renews the certificate "
        "authority. Renew the certificate yourself if you provide it."
    ),
)
CERTIFICATE_UNUSABLE = CODES.define(
    "CertificateUnusable",
    Severity.ERROR,
    text=(
        "The `caBundle` of a webhook is missing, unreadable, or contains no certificate that is "
        "valid now. The API server cannot call the webhook."
    ),
    example="pods.drawbridge.dev: caBundle expired 2 days ago, on 2026-11-19 10:00 UTC",
    remedy="Check the log of drawbridge-controller, or the component that injects `caBundle`.",
)
WEBHOOK_UNREACHABLE = CODES.define(
    "WebhookUnreachable",
    Severity.ERROR,
    text="The API server cannot call the webhook. It denies all pods that request devices.",
    example=(
        'failed calling webhook "pods.drawbridge.dev": Post "https://drawbridge-webhook...": '
        "connection refused"
    ),
    remedy=(
        "Check that the pods of Deployment drawbridge-webhook are ready, and that a NetworkPolicy "
        "lets the API server connect to them."
    ),
)
WEBHOOK_NOT_CALLED = CODES.define(
    "WebhookNotCalled",
    Severity.ERROR,
    text="The API server admits a legacy pod of an opted-in namespace without calling the webhook.",
    example="namespace team-a: a pod with an unreadable device request is admitted unchanged",
    remedy="Apply the installation manifests again, and check the log of drawbridge-controller.",
)
WEBHOOK_NOT_TRIED = CODES.define(
    "WebhookNotTried",
    Severity.WARNING,
    text=(
        "No sample pod could be created in a dry run, so it is unknown whether the webhook answers."
    ),
    example="no namespace with drawbridge.dev/translate=enforce",
    remedy="Name a namespace in mode enforce in which you may create pods, with `-n`.",
)
FACTS_MISSING = CODES.define(
    "FactsMissing",
    Severity.ERROR,
    text="The ConfigMap with the facts is missing or unusable, so the webhook is not ready.",
    example="ConfigMap drawbridge-system/drawbridge-facts not found",
    remedy="Check that drawbridge-controller runs and has a leader, and read its log.",
)
LEADER_MISSING = CODES.define(
    "LeaderMissing",
    Severity.ERROR,
    text="No controller renews the Lease, so facts, templates and certificates are not updated.",
    example=(
        "Lease drawbridge-system/drawbridge-controller was last renewed 4 hours ago, by "
        "drawbridge-controller-5d4f"
    ),
    remedy="Check that the pods of Deployment drawbridge-controller run, and read their log.",
)
SCHEDULER_MISSING = CODES.define(
    "SchedulerMissing",
    Severity.ERROR,
    text=(
        "With `placement: bridge`, no scheduler of Drawbridge renews its Lease, so pods with "
        "schedulerName drawbridge stay pending."
    ),
    example="Lease drawbridge-system/drawbridge-scheduler not found",
    remedy=(
        "Check that the pods of Deployment drawbridge-scheduler run, and read the logs of their "
        "two containers. To use the default scheduler, set `placement: native`."
    ),
)
RIGHT_MISSING = CODES.define(
    "RightMissing",
    Severity.WARNING,
    text="You lack a permission that a command of Drawbridge needs.",
    example="you cannot list nodes, which facts and check need",
    remedy="Ask the cluster administrator for the role.",
)
