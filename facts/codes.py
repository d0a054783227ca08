"""The findings of this package."""

from dra.finding import Code, Codes, Severity

NODES_UNREADABLE = Code(
    name="NodePoolsUnreadable",
    severity=Severity.WARNING,
    text="What some nodes see of devices cannot be told, and does not count in the facts.",
    example="on 3 nodes slice gpu-a: nodeSelectorTerms[0].matchExpressions[0]: In needs values",
    remedy="Correct the slice it names; the stock scheduler cannot place pods with claims either.",
)
FACTS_CUT = Code(
    name="FactsCut",
    severity=Severity.WARNING,
    text="A table of the facts would be too large; the rows that count least are left out.",
    example="products has no package for 20 more rows",
    remedy="Usually a driver publishes a product name of its own for every device: correct that.",
)
HASH_DIFFERS = Code(
    name="FactsHashDiffers",
    severity=Severity.ERROR,
    text="The file says another hash than its content has.",
    example="hash: the content has sha256:ab.., the file says sha256:cd..",
    remedy="Take the line with the hash out if the file was changed on purpose.",
)

CODES = Codes("facts", [NODES_UNREADABLE, FACTS_CUT, HASH_DIFFERS])
