"""The finding codes of the allocator: why a pod of its scheduler has no devices."""

from drawbridge.finding import Codes

CODES = Codes()

CLAIM_TOO_LARGE = CODES.define("ClaimTooLarge")
CLAIM_DELETED = CODES.define("ClaimDeleted")
CLAIM_BEING_DELETED = CODES.define("ClaimBeingDeleted")
CLAIM_HAS_MAX_CONSUMERS = CODES.define("ClaimHasMaxConsumers")
CLAIM_OF_ANOTHER_POD = CODES.define("ClaimOfAnotherPod")
POD_DELETED = CODES.define("PodDeleted")
GANG_TOO_LARGE = CODES.define("GangTooLarge")
GANG_TOO_VARIED = CODES.define("GangTooVaried")
GANG_INCOMPLETE = CODES.define("GangIncomplete")
GANG_PAUSES = CODES.define("GangPauses")
GANG_HOLD_ENDED = CODES.define("GangHoldEnded")
GANG_INTERRUPTED = CODES.define("GangInterrupted")
NODE_REFUSED = CODES.define("NodeRefused")
NO_OWNED_POOL = CODES.define("NoOwnedPool")
DEVICES_BEING_RELEASED = CODES.define("DevicesBeingReleased")
DEVICES_HELD = CODES.define("DevicesHeld")
DEVICES_MAY_BE_IN_USE = CODES.define("DevicesMayBeInUse")
SEARCH_CONTINUES = CODES.define("SearchContinues")
MARK_NOT_REMOVED = CODES.define("MarkNotRemoved")
ALLOCATION_TAKEN_BACK = CODES.define("AllocationTakenBack")
ALLOCATION_NOT_TAKEN_BACK = CODES.define("AllocationNotTakenBack")
ALLOCATION_NOT_STORED = CODES.define("AllocationNotStored")
WRITE_NOT_UNDONE = CODES.define("WriteNotUndone")
