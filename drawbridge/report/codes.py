"""Finding codes of `drawbridge explain`: problems of a pod and its claims."""

from typing import Final

from drawbridge.finding import Codes, Trait

CODES = Codes()

NOT_TRANSLATED = CODES.define("NotTranslated")
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
ORIGINAL_UNREADABLE = CODES.define("OriginalUnreadable")
TEMPLATE_MISSING = CODES.define("TemplateMissing")
# The remedy where an event of Drawbridge has cause and remedy.
SEE_EVENT: Final = "The event {} says why, and what to do."
TEMPLATE_DIFFERS = CODES.define("TemplateDiffers")
CLAIM_NOT_GENERATED = CODES.define("ClaimNotGenerated", Trait.ONLY_FOR_PODS)
CLAIM_GONE = CODES.define("ClaimGone")
CLAIM_PENDING = CODES.define("ClaimPending")
# The remedies in a live cluster: whether it was asked why no node fits, and answered with reasons.
FREE_DEVICES: Final = "Free or add devices as the reasons of the nodes say, or request others."
SEE_CONDITION: Final = "The message of the condition PodScheduled says what the pod waits for."
ALLOW_SIMULATION: Final = (
    f"{SEE_CONDITION} With the right that the simulation lacks, it names the missing devices."
)
FREE_RESOURCES: Final = "Free, add or change what the message names."
CLAIM_NOT_RESERVED = CODES.define("ClaimNotReserved")
POD_PENDING = CODES.define("PodPending", Trait.ONLY_FOR_PODS)
GANG_MEMBERS_MISSING = CODES.define("GangMembersMissing", Trait.ONLY_FOR_PODS)
DEVICES_NOT_PREPARED = CODES.define("DevicesNotPrepared")
