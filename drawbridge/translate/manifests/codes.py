"""Finding codes of objects of any kind."""

from drawbridge.finding import Codes, Trait

CODES = Codes()

OPTED_OUT = CODES.define("OptedOut", Trait.LEAVES_REQUEST)
REQUEST_NOT_IN_POD = CODES.define("RequestNotInPod")
RENDERED_LATER = CODES.define("RenderedLater")
LEGACY_NAME_USED = CODES.define("LegacyNameUsed")
CLAIMS_REFUSED = CODES.define("ClaimsRefused")
CLAIMS_DROPPED = CODES.define("ClaimsDropped")
SCHEMA_UNKNOWN = CODES.define("SchemaUnknown")
QUOTA_COUNTS_NAMES = CODES.define("QuotaCountsNames")
TEMPLATE_IN_INPUT_DIFFERS = CODES.define("TemplateInInputDiffers")

RAY_GPUS_LOST = CODES.define("RayGpusLost")
TRAINER_GPUS_LOST = CODES.define("TrainerGpusLost")
DAEMON_SET_ON_MIXED_NODES = CODES.define("DaemonSetOnMixedNodes")
ORIGINAL_MISSING = CODES.define("OriginalMissing")
ORIGINAL_UNUSABLE = CODES.define("OriginalUnusable")
