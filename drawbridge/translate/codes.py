"""Finding codes of the limits of a translation, which protect the process and the API server."""

from drawbridge.finding import Codes

CODES = Codes()

POD_TOO_COMPLEX = CODES.define("PodTooComplex")
TOO_MANY_CLAIMS = CODES.define("TooManyClaims")
ANNOTATIONS_TOO_LARGE = CODES.define("AnnotationsTooLarge")
STRATEGY_UNKNOWN = CODES.define("StrategyUnknown")
STRATEGY_IGNORED = CODES.define("StrategyIgnored")
