"""Finding codes of the limits of a translation, which protect the process and the API server."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.TRANSLATE)

POD_TOO_COMPLEX = CODES.define(
    "PodTooComplex",
    Severity.ERROR,
    text=(
        "The translation of the pod takes more time or memory than that of one pod may take. The "
        "limit keeps one pod from delaying others."
    ),
    example=("spec: its review gives no result with 2 s of CPU time and 256 MiB of memory"),
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
STRATEGY_UNKNOWN = CODES.define(
    "StrategyUnknown",
    Severity.ERROR,
    text=(
        "An annotation of Drawbridge on the pod has a value that it cannot have: the name of a "
        "strategy, or weights of the parts of a score."
    ),
    example=(
        'metadata.annotations[drawbridge.dev/strategy-weights]: "memory=-1" is not a name and a '
        "whole number up to 1000, such as memory=3"
    ),
    remedy="Correct the value, or remove the annotation.",
)
STRATEGY_IGNORED = CODES.define(
    "StrategyIgnored",
    Severity.WARNING,
    text=(
        "The pod chooses a strategy or weights, and nothing obeys them. Only the allocator of "
        "Drawbridge has strategies, and it reads them in the rules of claims."
    ),
    example=(
        "metadata.annotations[drawbridge.dev/strategy]: drawbridge.dev/strategy has no effect, "
        "because kube-scheduler selects the devices in native placement"
    ),
    remedy="Use bridge placement for the namespace, or remove the annotation.",
)
