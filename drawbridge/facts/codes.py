"""The finding codes of this package."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.OPERATE)

NODE_POOLS_UNREADABLE = CODES.define(
    "NodePoolsUnreadable",
    Severity.WARNING,
    text=(
        "A node selector in a ResourceSlice is not valid, so the pools that some nodes can use "
        "are unknown. The facts do not count the devices of these nodes."
    ),
    example=(
        "cannot determine the pools of 3 nodes: slice gpu-a: "
        "nodeSelectorTerms[0].matchExpressions[0]: In needs values"
    ),
    remedy=(
        "Correct the ResourceSlice. The default scheduler cannot schedule pods with claims to "
        "these nodes either."
    ),
)
FACTS_CUT = CODES.define(
    "FactsCut",
    Severity.WARNING,
    text=(
        "A table of the facts exceeds its size limit. The rows with the fewest devices or nodes "
        "are omitted."
    ),
    example="products: table products is full: 20 rows omitted",
    remedy=(
        "Check whether a driver publishes a different product name for every device, and correct "
        "the driver."
    ),
)
FACTS_HASH_DIFFERS = CODES.define(
    "FactsHashDiffers",
    Severity.ERROR,
    text="The hash in a facts file does not match its content.",
    example="hash: hash is sha256:cd.., but the content has sha256:ab..",
    remedy="Remove the hash field if you changed the file on purpose.",
)
