"""Finding codes of `drawbridge explain`: problems of a pod and its claims."""

from typing import Final

from drawbridge.finding import Activity, Codes, Severity, Trait

CODES = Codes(Activity.EXPLAIN)

NOT_TRANSLATED = CODES.define(
    "NotTranslated",
    Severity.INFO,
    text="The pod requests device-plugin resources and was not translated.",
    example="Pod/team-a/train: requests nvidia.com/gpu; its namespace is not opted in",
    remedy=(
        "To translate it, label its namespace with drawbridge.dev/translate=enforce and create the "
        "pod again."
    ),
)
# The remedy for a manifest.
TRANSLATE_FILE: Final = (
    "Run `drawbridge translate -f FILE`, or label the namespace with "
    "drawbridge.dev/translate=enforce before you create the object."
)
# The remedy for a pod in a namespace with the label.
ASK_WHY: Final = (
    "Run `drawbridge translate -f FILE --context` with the manifest of the pod to see why. If that "
    "translates it, the API server did not call the webhook: check `kubectl get events -n default "
    "--field-selector reason=NameNotActive`, or create the pod again."
)
# The remedy for a pod that waits for a node.
ASK_WHETHER_IT_FITS: Final = (
    "Run `drawbridge translate -f FILE --context` with its manifest: its last lines say whether "
    "drivers have such devices. Only then label the namespace with "
    "drawbridge.dev/translate=enforce, and create the pod again."
)
ORIGINAL_UNREADABLE = CODES.define(
    "OriginalUnreadable",
    Severity.WARNING,
    text=(
        "The original requests cannot be restored from the annotation drawbridge.dev/original, "
        "because the annotation or the pod was changed, the annotation was copied from another "
        "pod, or it takes too much work for a pod of this size. This does not affect the pod."
    ),
    example=(
        "Pod/team-a/train metadata.annotations[drawbridge.dev/original]: does not match this pod"
    ),
    remedy="Read the original requests in the manifest of the pod.",
)
TEMPLATE_MISSING = CODES.define(
    "TemplateMissing",
    Severity.WARNING,
    text=(
        "The pod refers to a ResourceClaimTemplate that does not exist, so Kubernetes cannot "
        "create the claim."
    ),
    example=(
        "Pod/team-a/train spec.resourceClaims[0]: ResourceClaimTemplate drawbridge-77ab not found"
    ),
    remedy=(
        "If Drawbridge generated the template, check the log of the controller, which creates "
        "missing templates, or create the pod again from its manifest. Otherwise create the "
        "template."
    ),
)
TEMPLATE_DIFFERS = CODES.define(
    "TemplateDiffers",
    Severity.WARNING,
    text=(
        "The content of a ResourceClaimTemplate of Drawbridge does not match the hash in its name, "
        "so the pod may get other devices than it requested. Another client wrote the template."
    ),
    example="ResourceClaimTemplate/team-a/drawbridge-77ab: content has the hash of drawbridge-91c0",
    remedy="Delete the template, then create the pods that use it again from their manifests.",
)
CLAIM_NOT_GENERATED = CODES.define(
    "ClaimNotGenerated",
    Severity.WARNING,
    Trait.ONLY_FOR_PODS,
    text="Kubernetes has not created the claim of the pod from its template yet.",
    example=(
        "Pod/team-a/train spec.resourceClaims[0]: no claim created from template drawbridge-77ab "
        "yet"
    ),
    remedy="Check the events of the pod. A quota on claims or devices may deny the claim.",
)
CLAIM_GONE = CODES.define(
    "ClaimGone",
    Severity.WARNING,
    text="The pod refers to a ResourceClaim that does not exist.",
    example="Pod/team-a/train spec.resourceClaims[0]: ResourceClaim train-gpu not found",
    remedy="Create the claim. If Kubernetes generated it for the pod, create the pod again.",
)
CLAIM_PENDING = CODES.define(
    "ClaimPending",
    Severity.WARNING,
    text="The scheduler has not allocated devices to the claim yet.",
    example="ResourceClaim/team-a/train-drawbridge-x7k2p: no devices allocated",
    remedy=(
        "Run `drawbridge explain` for the pod in the live cluster to see why no node fits. From "
        "files of all its objects, `drawbridge simulate --cluster PATH` says the same."
    ),
)
CLAIM_NOT_RESERVED = CODES.define(
    "ClaimNotReserved",
    Severity.WARNING,
    text="The claim has devices, but it is not reserved for this pod.",
    example="ResourceClaim/team-a/train-gpu: reserved for other, not for this pod",
    remedy="Wait until the pods that use the claim end, or give this pod a claim of its own.",
)
POD_PENDING = CODES.define(
    "PodPending",
    Severity.WARNING,
    Trait.ONLY_FOR_PODS,
    text="The scheduler has not assigned the pod to a node. The message is from the scheduler.",
    example="Pod/team-a/train: 0/8 nodes are available: 8 cannot allocate all claims",
    remedy=(
        "Free or add the resources that the message names. In a live cluster, `drawbridge explain` "
        "shows the reason for each device."
    ),
)
GANG_MEMBERS_MISSING = CODES.define(
    "GangMembersMissing",
    Severity.WARNING,
    Trait.ONLY_FOR_PODS,
    text=(
        "The gang of the pod has fewer members than its minimum. The scheduler tries none of them "
        "before there are enough, and does not say so."
    ),
    example=(
        "Pod/ml/worker-0: PodGroup ml/train needs 4 members and has 3 members, so it waits for 1 "
        "more pod"
    ),
    remedy=(
        "Check why the other pods do not exist: the events of the object that creates them, a "
        "quota, or a minimum that is larger than its number of pods."
    ),
)
DEVICES_NOT_PREPARED = CODES.define(
    "DevicesNotPrepared",
    Severity.WARNING,
    text="The pod has a node and devices, but the kubelet has not started its containers.",
    example="Pod/team-a/train: FailedPrepareDynamicResources: gpu-0 is not healthy",
    remedy="Check the events of the pod and the log of the device driver on that node.",
)
