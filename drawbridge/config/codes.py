"""The finding codes of this package."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.CONFIGURE)

SELECTOR_CONTRADICTORY = CODES.define(
    "SelectorContradictory",
    Severity.ERROR,
    text=(
        "A label selector requirement has values with an operator that takes none, or no values "
        "with an operator that needs them."
    ),
    example="scope.namespaceSelector.matchExpressions[0]: operator In needs at least one value",
    remedy="Set at least one value for In and NotIn, and no values for Exists and DoesNotExist.",
)
ENTRY_WITHOUT_EFFECT = CODES.define(
    "EntryWithoutEffect",
    Severity.ERROR,
    text="An entry of the Configuration, or a part of it, has no effect.",
    example="compatibility[0]: must set compatibleOnlyWith or groups",
    remedy="Complete the entry or remove it.",
)
RESOURCE_NAME_TAKEN = CODES.define(
    "ResourceNameTaken",
    Severity.ERROR,
    text=(
        "A resource name of `targets` has another meaning already: in another entry, in "
        "`legacy.renames`, or because Drawbridge knows it."
    ),
    example="targets[1].resources[0]: targets[0] has the name example.com/fpga as well",
    remedy="Keep one meaning for each name. An entry with a `kind` is for the names known already.",
)
DRIVER_OF_OTHER_KIND = CODES.define(
    "DriverOfOtherKind",
    Severity.ERROR,
    text=(
        "An entry of `targets` has a driver or a family that is known to be for another kind of "
        "device, or for devices of another vendor."
    ),
    example="targets[0].driver: dra.net is a driver of nic devices, not of gpu devices",
    remedy="Set the `kind` and the `vendor` of the driver's devices, or another driver.",
)
TARGET_NOT_PUBLISHED = CODES.define(
    "TargetNotPublished",
    Severity.WARNING,
    text=(
        "A target refers to an attribute or a capacity that no device of its driver publishes, or "
        "has a family whose devices always publish one that they lack. Requests that need it find "
        "no device."
    ),
    example="targets[0].attributes[uuid]: no device of fpga.example.com publishes attribute serial",
    remedy=(
        "Publish it, or correct the name or the family. A name without a domain is in the domain "
        "of the driver."
    ),
)
TARGET_CLASS_MISSING = CODES.define(
    "TargetClassMissing",
    Severity.WARNING,
    text=(
        "The configuration names a DeviceClass that does not exist. An entry of `targets` with "
        "such a class translates nothing; an entry of `fleet`, or a limit in `quotas`, has no "
        "effect."
    ),
    example="targets[0].class: DeviceClass gpu.exmaple.com does not exist",
    remedy="Correct the name in the configuration, or create the class.",
)
TARGET_OF_OTHER_DRIVER = CODES.define(
    "TargetOfOtherDriver",
    Severity.WARNING,
    text=(
        "A target names a DeviceClass that selects devices, but none of the driver of the target. "
        "Claims are written in the words of a driver that never serves them."
    ),
    example="targets[0].class: gpu.amd.com selects devices of gpu.amd.com, none of gpu.nvidia.com",
    remedy="Name the driver whose devices the class selects, or another class.",
)
UNIT_WITHOUT_USE = CODES.define(
    "UnitWithoutUse",
    Severity.WARNING,
    text=(
        "`legacy.units` or `legacy.defaults` has a resource name that no dialect and no target "
        "reads an amount from."
    ),
    example="legacy.units[example.com/mem]: nothing reads an amount of example.com/mem",
    remedy="Correct the name, or remove the entry.",
)
PARTITIONS_OVERLAP = CODES.define(
    "PartitionsOverlap",
    Severity.ERROR,
    text="A device is in two partitions of the same size, or in one partition twice.",
    example="partitions[0].partitions[1]: device 1 is in partitions[0] of the same size as well",
    remedy="Correct the numbers of the devices.",
)
CONFIGURATION_EXPRESSION_WRONG = CODES.define(
    "ConfigurationExpressionWrong",
    Severity.ERROR,
    text="A CEL expression in the Configuration does not compile.",
    example="compatibility[0].selector: selector, line 1, column 8: undefined field 'drivr'",
    remedy="Correct the expression. Its variable is `device`, as in a DeviceClass.",
)
OWNED_POOLS_MISSING = CODES.define(
    "OwnedPoolsMissing",
    Severity.ERROR,
    text=(
        "With `placement: bridge`, the allocator of Drawbridge allocates only from the pools of "
        "`ownedPools`, and the Configuration has no entry."
    ),
    example="ownedPools: placement bridge needs at least one entry",
    remedy=(
        "Add an entry with the driver and the labels of its nodes, for example "
        "`{driver: gpu.nvidia.com, nodeSelector: {matchLabels: {pool: bridge}}}`."
    ),
)
OWNED_POOLS_DISAGREE = CODES.define(
    "OwnedPoolsDisagree",
    Severity.ERROR,
    text="Two entries of `ownedPools` select the same nodes, and only one sets `unfenced`.",
    example="ownedPools[1].unfenced: ownedPools[0] selects the same nodes with unfenced: false",
    remedy="Set `unfenced` to the same value in all entries that select a node.",
)
CONFIGURATION_NOT_ONE = CODES.define(
    "ConfigurationNotOne",
    Severity.ERROR,
    text="A configuration file contains no YAML document, or more than one.",
    example="config.yaml: found 2 documents in the file, expected one Configuration",
    remedy="Keep exactly one document in the file.",
)
