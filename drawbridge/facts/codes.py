"""The finding codes of this package."""

from drawbridge.finding import Codes

CODES = Codes()

NODE_POOLS_UNREADABLE = CODES.define("NodePoolsUnreadable")
CLASS_NAME_IGNORED = CODES.define("ClassNameIgnored")
FACTS_CUT = CODES.define("FactsCut")
FACTS_HASH_DIFFERS = CODES.define("FactsHashDiffers")
