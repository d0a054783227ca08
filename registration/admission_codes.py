"""The findings of this package."""

from dra.finding import Code, Codes, Severity

LABEL_UNKNOWN = Code(
    name="ScopeLabelUnknown",
    severity=Severity.WARNING,
    text="A namespace's label drawbridge.dev/translate has a value that it cannot have.",
    example="the label of namespace team-a is on; nothing is translated there",
    remedy="Label the namespace enforce, report or off.",
)
POD_LABEL_UNKNOWN = Code(
    name="PodLabelUnknown",
    severity=Severity.WARNING,
    text=(
        "A pod's label drawbridge.dev/translate has a value that means nothing on a pod: a pod can "
        "opt out, and what else is done is for its namespace to say."
    ),
    example="metadata.labels[drawbridge.dev/translate]: it is report, and only off has a meaning",
    remedy="Label the pod off to leave it as it is, or its namespace report or off.",
)
TEMPLATE_TAKEN = Code(
    name="TemplateTaken",
    severity=Severity.ERROR,
    text=(
        "A ResourceClaimTemplate of the name that stands for the pod's claim says something else. "
        "The name is made from the content, so somebody wrote the template by hand."
    ),
    example="ResourceClaimTemplate team-a/drawbridge-0a1b...: it says something else",
    remedy="Delete the template; it is made again as it has to be.",
)
FIELD_DROPPED = Code(
    name="ClaimFieldDropped",
    severity=Severity.ERROR,
    text=(
        "The API server drops a field of the claim because it is older or a feature is off, and "
        "would allocate more, or something else, than the pod asked for."
    ),
    example="spec.spec.devices.requests[0].exactly.capacity: it is not kept",
    remedy="Turn the feature on in API server and scheduler, or ask for whole devices.",
)
TEMPLATE_LATER = Code(
    name="TemplateLater",
    severity=Severity.INFO,
    text="The template of a pod's claim could not be made at once; the pod waits until it is.",
    example="ResourceClaimTemplate drawbridge-0a1b...: the API server did not answer in time",
    remedy="Nothing has to be done; the controller makes it.",
)
TEMPLATE_REFUSED = Code(
    name="TemplateRefused",
    severity=Severity.WARNING,
    text=(
        "The API server refuses the template of a pod's claim: for a quota, a policy, or a right "
        "that is missing. The pod waits until it is made."
    ),
    example="ResourceClaimTemplate drawbridge-0a1b...: 403 Forbidden: exceeded quota: objects",
    remedy="See to what the message names; the controller tries again every few seconds.",
)
LIMIT_EXCEEDED = Code(
    name="LimitRangeExceeded",
    severity=Severity.ERROR,
    text="What a pod asks of a device plugin breaks a LimitRange of its namespace.",
    example="LimitRange gpus: at most 2 nvidia.com/gpu per Container, and main asks for 4",
    remedy="Ask for what the LimitRange allows, or have it changed.",
)
LIMIT_UNMEETABLE = Code(
    name="LimitRangeUnmeetable",
    severity=Severity.ERROR,
    text=(
        "A LimitRange wants every container, or the pod, to ask for a device by its old name. A "
        "translated pod does not, and the API server would refuse it."
    ),
    example="LimitRange gpus: at least 1 nvidia.com/gpu per Container",
    remedy="Take the entry out of the LimitRange, and limit claims by a ResourceQuota.",
)
QUOTA_EXCEEDED = Code(
    name="QuotaExceeded",
    severity=Severity.ERROR,
    text="The claims of the pod would be charged more than is left of a ResourceQuota.",
    example="ResourceQuota gpus: requests.nvidia.com/gpu: asked 2, used 7 of 8",
    remedy="Wait until something is released, ask for less, or have the quota raised.",
)
QUOTA_ELSEWHERE = Code(
    name="QuotaNotOnClaims",
    severity=Severity.WARNING,
    text=(
        "A ResourceQuota limits a legacy name that no class maps, and so does not count the claims "
        "that pods are translated to. Claims are counted by their class."
    ),
    example="ResourceQuota gpus: requests.nvidia.com/gpu counts no claims; nothing else does",
    remedy="Limit <class>.deviceclass.resource.k8s.io/devices in the namespace.",
)
DEVICES_FIXED = Code(
    name="DevicesFixed",
    severity=Severity.ERROR,
    text="What a pod asks of devices cannot be changed once the pod is there.",
    example="spec.containers[0].resources.limits: nvidia.com/gpu was 1 and is 2 now",
    remedy="Delete the pod and create it again.",
)
HINT_FIXED = Code(
    name="HintWithoutEffect",
    severity=Severity.WARNING,
    text="An annotation or label about devices is written on a pod whose devices are chosen.",
    example="metadata.annotations[gpu-fraction]: it was 0.5 when the pod was created, and is 0.7",
    remedy="Delete the pod and create it again.",
)
CODES = Codes(
    "webhook",
    [
        LABEL_UNKNOWN,
        POD_LABEL_UNKNOWN,
        TEMPLATE_TAKEN,
        FIELD_DROPPED,
        TEMPLATE_LATER,
        TEMPLATE_REFUSED,
        LIMIT_EXCEEDED,
        LIMIT_UNMEETABLE,
        QUOTA_EXCEEDED,
        QUOTA_ELSEWHERE,
        DEVICES_FIXED,
        HINT_FIXED,
    ],
)
