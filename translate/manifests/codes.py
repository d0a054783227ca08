"""The findings of manifests of any kind."""

from dra.finding import Code, Codes, Severity

ELSEWHERE = Code(
    name="RequestNotInPod",
    severity=Severity.WARNING,
    text=(
        "A device is asked for in an object, or at a place of it, that is not known as a pod's. It "
        "stays as it is."
    ),
    example="spec.trainer.resourcesPerNode.limits[nvidia.com/gpu]: TrainJob keeps no pod here",
    remedy="Let the pods be translated when they are created, or translate what makes them.",
)
QUOTA_COUNTS = Code(
    name="QuotaCountsNames",
    severity=Severity.WARNING,
    text=(
        "A quota counts an extended resource, which pods that are translated no longer ask for: "
        "they are free of charge there."
    ),
    example="spec.hard[requests.nvidia.com/gpu]: it does not count pods that are translated",
    remedy="Count device classes as well: in a ResourceQuota, their entries for claims.",
)
TEMPLATE_DIFFERS = Code(
    name="TemplateInInputDiffers",
    severity=Severity.ERROR,
    text=(
        "A template among the input has the name that its content would have, and another content."
    ),
    example="ResourceClaimTemplate/team/drawbridge-4f..: spec differs from what a pod asks",
    remedy="Take it out of the input; it is made again.",
)

CODES = Codes(
    "translate: manifests",
    [
        ELSEWHERE,
        QUOTA_COUNTS,
        TEMPLATE_DIFFERS,
    ],
)
