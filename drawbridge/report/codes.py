"""Finding codes of `drawbridge explain`: problems of a pod and its claims."""

from typing import Final

from drawbridge.finding import Codes, Trait

CODES = Codes()

NOT_TRANSLATED = CODES.define("NotTranslated")
# What translates the pods of a namespace, if nothing else keeps them from it.
LABEL_NAMESPACE: Final = "label the namespace with drawbridge.dev/translate=enforce"
# The remedies for a manifest, for a pod that waits for a node, and for one that has it. Each says
# what translates such pods.
ADVICE_TO_AUTHORS: Final = "Run `drawbridge translate -f FILE`, or {} before you create the object."
ADVICE_TO_WAITING: Final = (
    "Run `drawbridge translate -f FILE --context` with its manifest: its last lines say whether "
    "drivers have such devices. Only then {}, and create the pod again."
)
ADVICE_TO_RUNNING: Final = "To translate it, {}, and create the pod again."
# The remedy for a pod that admission translates.
ASK_WHY: Final = (
    "Run `drawbridge translate -f FILE --context` with the manifest of the pod to see why. If that "
    "translates it, the API server did not call the webhook: check `kubectl get events -n default "
    "--field-selector reason=NameNotActive`, or create the pod again."
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
NODE_NOT_MOVED = CODES.define("NodeNotMoved", Trait.ONLY_FOR_PODS)
DEVICES_NOT_PREPARED = CODES.define("DevicesNotPrepared")
