"""The findings of this package: what a pod that was translated still lacks."""

from typing import Final

from dra.finding import Code, Codes, Severity

NOT_TRANSLATED = Code(
    name="NotTranslated",
    severity=Severity.INFO,
    text="The pod asks for devices the old way, or for none, and nothing of it was translated.",
    example="Pod/team-a/train: it asks for nvidia.com/gpu, and its namespace is not opted in",
    remedy=(
        "If it should be translated, label its namespace with drawbridge.dev/translate=enforce and "
        "create it again."
    ),
)
# Where the label is there already.
ASK_WHY: Final = (
    "`drawbridge translate -f FILE --context` with the pod's manifest says why. If it would be "
    "translated, it was not sent to us: see `kubectl get events -n default --field-selector "
    "reason=NameNotActive`, or create it again."
)
ORIGINAL_UNREADABLE = Code(
    name="OriginalUnreadable",
    severity=Severity.WARNING,
    text=(
        "The annotation drawbridge.dev/original does not lead back to what was asked: somebody "
        "copied it from another pod, or changed it or the pod. Nothing depends on it."
    ),
    example="Pod/team-a/train metadata.annotations[drawbridge.dev/original]: it does not fit",
    remedy="Look at the manifest the pod was made from.",
)
TEMPLATE_MISSING = Code(
    name="TemplateMissing",
    severity=Severity.WARNING,
    text="The pod refers to a ResourceClaimTemplate that is not there, so no claim can be made.",
    example="Pod/team-a/train spec.resourceClaims[0]: there is no template drawbridge-77ab",
    remedy=(
        "The controller makes a template of ours within a second; look at its log, or create the "
        "pod again from its manifest."
    ),
)
TEMPLATE_DIFFERS = Code(
    name="TemplateDiffers",
    severity=Severity.WARNING,
    text=(
        "A ResourceClaimTemplate with a name of ours has another content than its name says, so "
        "the pod gets other devices than were asked. Somebody else wrote it."
    ),
    example="ResourceClaimTemplate/team-a/drawbridge-77ab: its content is drawbridge-91c0",
    remedy="Delete the template, then create the pods that use it again from their manifests.",
)
CLAIM_NOT_GENERATED = Code(
    name="ClaimNotGenerated",
    severity=Severity.WARNING,
    text="Kubernetes has not made the pod's claim from its template yet.",
    example="Pod/team-a/train spec.resourceClaims[0]: no claim was made from drawbridge-77ab",
    remedy="Look at the pod's events; a quota on claims or devices may refuse it.",
)
CLAIM_GONE = Code(
    name="ClaimGone",
    severity=Severity.WARNING,
    text="A claim that the pod refers to does not exist.",
    example="Pod/team-a/train spec.resourceClaims[0]: there is no ResourceClaim train-gpu",
    remedy="Create the claim, or create the pod again when the claim was made for it.",
)
CLAIM_PENDING = Code(
    name="ClaimPending",
    severity=Severity.WARNING,
    text="The scheduler has not allocated devices to the claim.",
    example="ResourceClaim/team-a/train-drawbridge-x7k2p: no devices are allocated to it",
    remedy=(
        "Ask with `drawbridge simulate --cluster PATH` why no node has such devices free, and look "
        "at the pod's events."
    ),
)
CLAIM_NOT_RESERVED = Code(
    name="ClaimNotReserved",
    severity=Severity.WARNING,
    text="The claim is allocated, but not reserved for this pod.",
    example="ResourceClaim/team-a/train-gpu: it is reserved for Pod other",
    remedy="Wait until those that use the claim are done, or let the pod have a claim of its own.",
)
POD_PENDING = Code(
    name="PodPending",
    severity=Severity.WARNING,
    text="The pod has no node yet, and this is what the scheduler says.",
    example="Pod/team-a/train: 0/8 nodes are available: 8 cannot allocate all claims",
    remedy="Free or add what the message names; `drawbridge simulate` says it device by device.",
)
NOT_PREPARED = Code(
    name="DevicesNotPrepared",
    severity=Severity.WARNING,
    text="The pod has its node and its devices, and the node has not started it.",
    example="Pod/team-a/train: FailedPrepareDynamicResources: gpu-0 is not healthy",
    remedy="Look at the events and at the log of the driver on that node.",
)

CODES = Codes(
    "see",
    (
        NOT_TRANSLATED,
        ORIGINAL_UNREADABLE,
        TEMPLATE_MISSING,
        TEMPLATE_DIFFERS,
        CLAIM_NOT_GENERATED,
        CLAIM_GONE,
        CLAIM_PENDING,
        CLAIM_NOT_RESERVED,
        POD_PENDING,
        NOT_PREPARED,
    ),
)
