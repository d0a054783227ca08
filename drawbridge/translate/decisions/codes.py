"""Finding codes of the decisions about asks."""

from drawbridge.finding import Codes, Trait

CODES = Codes()

LEFT_TO_CLASS = CODES.define("LeftToClass", Trait.LEAVES_REQUEST)
CLASS_WOULD_SERVE = CODES.define("ClassWouldServe")
LEFT_TO_PLUGIN = CODES.define("LeftToPlugin", Trait.LEAVES_REQUEST)
LEFT_AS_IT_IS = CODES.define("LeftAsItIs", Trait.LEAVES_REQUEST)
NOTHING_SAYS_IT = CODES.define("NothingSaysIt")
LOST_IN_CLAIMS = CODES.define("LostInClaims")
AMOUNT_MAPPED_BY_CLASS = CODES.define("AmountMappedByClass")
NO_NODE_OFFERS_ALL = CODES.define("NoNodeOffersAll")
CAPACITY_SHRINKS = CODES.define("CapacityShrinks", Trait.ONLY_WHEN_TRANSLATED)
ADMIN_ACCESS_NOT_ALLOWED = CODES.define("AdminAccessNotAllowed")
ADMIN_ACCESS_NOT_LABELLED = CODES.define("AdminAccessNotLabelled")
ADMIN_ACCESS_UNKNOWN = CODES.define("AdminAccessUnknown")
SERVER_UNKNOWN = CODES.define("ServerUnknown")
SCHEDULER_WITHOUT_CLAIMS = CODES.define("SchedulerWithoutClaims")
POD_BOUND = CODES.define("PodBound")
POD_MIRRORED = CODES.define("PodMirrored")
PLACE_TAKEN = CODES.define("PlaceTaken")
