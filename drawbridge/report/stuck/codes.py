"""Finding codes of what is stuck."""

from drawbridge.finding import Codes

CODES = Codes()

DELETION_STUCK = CODES.define("DeletionStuck")
CONSUMER_GONE = CODES.define("ConsumerGone")
NEVER_ALLOCATED = CODES.define("NeverAllocated")
NEVER_PREPARED = CODES.define("NeverPrepared")
NEVER_RELEASED = CODES.define("NeverReleased")
NOT_PUBLISHED = CODES.define("NotPublished")
