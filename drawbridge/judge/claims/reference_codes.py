"""Finding codes about what claims and pods refer to, and about the quotas of their namespace."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.WRITE_CLAIMS)

CLASS_NOT_FOUND = CODES.define(
    "ClassNotFound",
    Severity.WARNING,
    text=(
        "A request names a DeviceClass that does not exist. Pods with the claim wait until "
        "somebody creates the class."
    ),
    example=(
        "spec.devices.requests[0].exactly.deviceClassName: DeviceClass gpu.nvidia.con does not "
        "exist; did you mean gpu.nvidia.com?"
    ),
    remedy="Correct the name, or create the class before the pods.",
)
CLAIM_NOT_FOUND = CODES.define(
    "ClaimNotFound",
    Severity.WARNING,
    text=(
        "A pod names a ResourceClaim or a ResourceClaimTemplate that does not exist in its "
        "namespace. The pod waits until somebody creates it; it may be created after the pod."
    ),
    example=(
        "spec.resourceClaims[0].resourceClaimTemplateName: ResourceClaimTemplate ml/one-gpu does "
        "not exist"
    ),
    remedy="Correct the name, or create the object in the namespace of the pod.",
)
REQUEST_NOT_FOUND = CODES.define(
    "RequestNotFound",
    Severity.ERROR,
    text=(
        "A container uses a request that its claim does not have. The pod runs, but the container "
        "gets no device."
    ),
    example=(
        "spec.containers[0].resources.claims[0].request: ResourceClaimTemplate ml/one-gpu has no "
        "request gpus; did you mean gpu?"
    ),
    remedy="Name a request of the claim, or no request to use all of its devices.",
)
CONTAINER_CLAIM_UNKNOWN = CODES.define(
    "ContainerClaimUnknown",
    Severity.ERROR,
    text=(
        "A container uses a claim that its pod does not list in resourceClaims. The API server "
        "rejects the pod."
    ),
    example="spec.containers[0].resources.claims[0].name: the pod has no claim gpu",
    remedy="Add the claim to spec.resourceClaims of the pod, or correct the name.",
)
POD_CLAIM_INVALID = CODES.define(
    "PodClaimInvalid",
    Severity.ERROR,
    text=(
        "An entry in resourceClaims of a pod names both a claim and a template, or neither, or has "
        "the name of another entry. The API server rejects the pod."
    ),
    example=(
        "spec.resourceClaims[0]: claim gpu must have exactly one of resourceClaimName and "
        "resourceClaimTemplateName"
    ),
    remedy="Name one claim or one template in each entry, and use each entry's name once.",
)

QUOTA_TOO_SMALL = CODES.define(
    "QuotaTooSmall",
    Severity.ERROR,
    text=(
        "An object alone needs more than a ResourceQuota of its namespace allows. Its claims are "
        "never created, even if nothing else is in use. A request for all devices is charged as 32."
    ),
    example=(
        "spec.spec.devices.requests: ResourceQuota team limits "
        "gpu.nvidia.com.deviceclass.resource.k8s.io/devices to 4, but the object needs 8"
    ),
    remedy="Request fewer devices, or ask the administrator for a larger quota.",
)
QUOTA_USED_UP = CODES.define(
    "QuotaUsedUp",
    Severity.WARNING,
    text=(
        "A ResourceQuota of the namespace leaves less than an object needs. Its claims are created "
        "when others are deleted."
    ),
    example=(
        "spec.devices.requests: ResourceQuota team limits count/resourceclaims.resource.k8s.io to "
        "10, of which 10 are in use; the object needs 1"
    ),
    remedy="Delete claims that are not needed, or ask the administrator for a larger quota.",
)
QUOTA_OF_LEGACY_NAME = CODES.define(
    "QuotaOfLegacyName",
    Severity.WARNING,
    text=(
        "A ResourceQuota limits a legacy name, and the claims of an object need more than it "
        "allows. The API server does not charge claims to such an entry. The controller of "
        "Drawbridge mirrors entries for numbers of devices, so the claims may not be created."
    ),
    example=(
        "spec.devices.requests: ResourceQuota team limits requests.nvidia.com/gpu to 4, of which 0 "
        "are in use; the object needs 8, which the API server does not charge to this entry"
    ),
    remedy="Request less, or ask the administrator which limit applies to claims.",
)
