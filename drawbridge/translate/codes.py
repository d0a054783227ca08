"""Finding codes of the limits of a translation, which protect the process and the API server."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.TRANSLATE)

POD_TOO_COMPLEX = CODES.define(
    "PodTooComplex",
    Severity.ERROR,
    text=(
        "The translation of the pod takes more work than its size allows. The limit keeps one pod "
        "from delaying others."
    ),
    example=(
        "spec: the pod has 2,000 bytes, for which the limit is 20,400 units of work, and its "
        "translation takes more"
    ),
    remedy=(
        "Request devices in fewer containers, or with fewer values in node affinity and in "
        "annotations about devices."
    ),
)
TOO_MANY_CLAIMS = CODES.define(
    "TooManyClaims",
    Severity.ERROR,
    text=(
        "The pod needs more ResourceClaims than one pod may have. The cluster creates each claim "
        "separately, and the scheduler allocates all of them together."
    ),
    example="spec.resourceClaims: the pod needs more than 64 ResourceClaimTemplates",
    remedy="Divide the pod, or request equal devices in its containers.",
)
ANNOTATIONS_TOO_LARGE = CODES.define(
    "AnnotationsTooLarge",
    Severity.ERROR,
    text=(
        "The annotations of the translated pod are larger than the API server accepts. They "
        "contain the patch that undoes the translation."
    ),
    example=(
        "metadata.annotations: the annotations would have 300000 bytes, of which "
        "drawbridge.dev/original has 290000, but the limit is 262144"
    ),
    remedy="Remove annotations, or divide the pod.",
)
