"""The findings of this package."""

from dra.finding import Code, Codes, Severity

OBJECT_TWICE = Code(
    name="ObjectTwice",
    severity=Severity.WARNING,
    text="An object is in the input twice. In a cluster the later one replaces the other.",
    example="metadata.name: slice node-1-gpu is there twice; the last one counts",
    remedy="Take one of the two out, or rename it.",
)
SLICE_OLD = Code(
    name="SliceOld",
    severity=Severity.WARNING,
    text="A slice has a lower generation than another of its pool, and is ignored.",
    example="spec.pool.generation: generation 3 of pool node-1 of gpu.example.com is ignored",
    remedy="Delete the slice, or publish it with the pool's generation.",
)
NOTHING_TO_JUDGE = Code(
    name="NothingToJudge",
    severity=Severity.INFO,
    text="The input has no object that this command looks at.",
    example="there is no ResourceSlice, no DeviceClass and no claim with rules in the input",
    remedy="Hand in files that have some.",
)
MORE_ALIKE = Code(
    name="MoreAlike",
    severity=Severity.INFO,
    text="One object has more findings of one code than are shown.",
    example="62 more findings of CounterUnknown in this object are not shown",
    remedy="Correct what is shown and look again.",
)
POOL_INCOMPLETE = Code(
    name="PoolIncomplete",
    severity=Severity.ERROR,
    text=(
        "A pool does not have as many slices at its newest generation as it says. Nothing can be "
        "allocated from it, and a request for all devices of any driver fails where it is seen."
    ),
    example="spec.pool.resourceSliceCount: pool node-1 of gpu.example.com has 1 of 2 slices",
    remedy="Publish the missing slices, delete those too many, or correct resourceSliceCount.",
)
POOL_COUNT_DISAGREES = Code(
    name="PoolCountDisagrees",
    severity=Severity.ERROR,
    text=(
        "Slices of one pool and generation say different numbers of slices. Which of them counts "
        "depends on the node."
    ),
    example="spec.pool.resourceSliceCount: pool node-1 has 3 slices by this one, 2 by node-1-a",
    remedy="Publish the same resourceSliceCount in all slices of a generation.",
)
NAME_TAKEN = Code(
    name="NameTaken",
    severity=Severity.ERROR,
    text=(
        "A device or counter set has the name of another in its pool. Where a node sees both, "
        "nothing of the pool can be allocated; elsewhere one counts as allocated with the other."
    ),
    example="spec.devices[0].name: device gpu-0 is in pool p of d.io twice, first in slice a",
    remedy="Give devices and counter sets names that are unique in the pool.",
)
NODE_SELECTOR_TERMS = Code(
    name="NodeSelectorTerms",
    severity=Severity.ERROR,
    text=(
        "A device's node selector has more than one term. The API server lets it pass, and every "
        "allocation with the device fails at its end."
    ),
    example="spec.devices[0].nodeSelector.nodeSelectorTerms: nodeSelectorTerms has 2 terms",
    remedy="Write one term, or publish one device for each.",
)
COUNTER_UNKNOWN = Code(
    name="CounterUnknown",
    severity=Severity.ERROR,
    text=(
        "A device draws from a counter or counter set that its pool does not have. The API server "
        "lets it pass, and nothing can be allocated from the pool."
    ),
    example="spec.devices[0].consumesCounters[0].counterSet: device gpu-0 draws from counter set x",
    remedy="Publish the counter in sharedCounters of a slice of the pool, or correct the name.",
)
COUNTER_EXCEEDED = Code(
    name="CounterExceeded",
    severity=Severity.ERROR,
    text="A device draws more than its counter set has: it can never be allocated.",
    example=(
        "spec.devices[0].consumesCounters[0].counters[memory].value: device gpu-0 draws 80Gi of "
        "memory, and counter set gpu-0 has 40Gi"
    ),
    remedy="Raise the counter's total, or let the device draw less.",
)
COUNTER_NEGATIVE = Code(
    name="CounterNegative",
    severity=Severity.ERROR,
    text=(
        "A counter is negative. A negative total keeps every device that draws from any counter of "
        "the pool from being allocated; a negative draw gives others more than there is."
    ),
    example="spec.sharedCounters[0].counters[memory].value: counter memory of gpu-0 has -1",
    remedy="Publish an amount of zero or more.",
)
GROUPS_MIXED = Code(
    name="GroupsMixed",
    severity=Severity.WARNING,
    text=(
        "Devices on one counter set have compatibility groups beside others that have none. The "
        "two are never allocated at the same time."
    ),
    example="spec.devices[2].consumesCounters[0].compatibilityGroups: device mps-0 has no group",
    remedy="Give every device of the counter set a group, or none.",
)
GROUPS_IDLE = Code(
    name="GroupsIdle",
    severity=Severity.WARNING,
    text="A device has compatibility groups on a counter set that no other device draws from.",
    example="spec.devices[0].consumesCounters[0].compatibilityGroups: no other device draws",
    remedy="Take the groups out, or let the devices they are meant for draw from the same set.",
)
GROUPS_ALONE = Code(
    name="GroupsAlone",
    severity=Severity.WARNING,
    text=(
        "A device's compatibility groups keep it from every other device of its counter set, "
        "although the counters would have package for both."
    ),
    example="device mig-0 goes with no other on counter set gpu-0",
    remedy="Correct the group's name, or let the device draw the whole counter set.",
)
GROUPS_PAIRWISE = Code(
    name="GroupsPairwise",
    severity=Severity.INFO,
    text=(
        "Devices share compatibility groups two by two but have none in common. The scheduler asks "
        "for a group that all devices on a counter set have."
    ),
    example="a, b, c share a group two by two on counter set s, but the three have none in common",
    remedy="If the three are meant to go together, give them a common group.",
)
FIELD_DROPPED = Code(
    name="FieldDropped",
    severity=Severity.WARNING,
    text="A field is not part of the Kubernetes API, whose server drops it without a word.",
    example="spec.devices[0].compatibleOnlyWith: device mig-0 has compatibleOnlyWith",
    remedy=(
        "Declare it in the slice's annotation drawbridge.dev/compatibility or in the configuration."
    ),
)
COMPATIBILITY_ASYMMETRIC = Code(
    name="CompatibilityAsymmetric",
    severity=Severity.WARNING,
    text=(
        "A device's compatibleOnlyWith excludes another device that says nothing against it. The "
        "two are never allocated at the same time, but who reads only one of them cannot know."
    ),
    example="spec.devices[0]: device mig-0 does not go with mps-0, which would go with it",
    remedy="Declare the exclusion on both devices, or on none.",
)
COMPATIBILITY_SELF = Code(
    name="CompatibilitySelf",
    severity=Severity.WARNING,
    text=(
        "A device that allows multiple allocations does not go with itself by its own "
        "compatibleOnlyWith, so that it never gets a second share."
    ),
    example="spec.devices[0]: device mps-0 allows multiple allocations and does not go with itself",
    remedy="Let the expression hold for the device itself, or take allowMultipleAllocations out.",
)
ATTRIBUTE_TYPES = Code(
    name="AttributeTypes",
    severity=Severity.WARNING,
    text="An attribute has one type on some devices of a driver and another type on others.",
    example="spec.devices[1].attributes[numa]: d.io/numa has type string here and int in slice a",
    remedy="Publish the attribute with one type, or under two names.",
)
NAME_TWICE = Code(
    name="NameTwice",
    severity=Severity.WARNING,
    text=(
        "A device has a name with the driver's domain and without. The two mean the same; "
        "constraints take the full name, expressions see either by chance."
    ),
    example="spec.devices[0].attributes[d.io/model]: model is there as well and means the same",
    remedy="Publish one of the two.",
)
NAME_SLASHES = Code(
    name="NameSlashes",
    severity=Severity.WARNING,
    text="A name has more than one slash. The API server lets it pass; no expression can name it.",
    example="spec.devices[0].attributes[a/b/c]: a/b/c is read as b/c of a",
    remedy="Use one slash, between the domain and the name.",
)
STANDARD_ATTRIBUTE = Code(
    name="StandardAttribute",
    severity=Severity.WARNING,
    text="A standard attribute does not have its standard type or form, so nothing aligns with it.",
    example="resource.kubernetes.io/pcieRoot of device nic-0 must be a string such as pci0000:3a",
    remedy="Publish it in the standard form, or not at all.",
)
PARTITION_TYPE_MISSING = Code(
    name="PartitionTypeMissing",
    severity=Severity.WARNING,
    text="A partitionable device does not carry the attribute that its slice names for its type.",
    example="spec.devices[0].attributes: device half-0 has no string d.io/profile",
    remedy="Publish the attribute on every device that draws from counters.",
)
PARTITION_TYPE_COST = Code(
    name="PartitionTypeCost",
    severity=Severity.WARNING,
    text="Two partitions of one type draw different amounts from counters.",
    example="spec.devices[1].consumesCounters: device half-1 draws other amounts than half-0",
    remedy="Give partitions that cost different amounts different types.",
)
EXTENDED_NAME_SHARED = Code(
    name="ExtendedNameShared",
    severity=Severity.WARNING,
    text="Two classes serve one extended resource name, which is unique by convention only.",
    example="spec.extendedResourceName: example.com/gpu is served by class a as well",
    remedy="Let one class serve the name.",
)
EXPRESSION_REFUSED = Code(
    name="ExpressionRefused",
    severity=Severity.ERROR,
    text=(
        "An expression does not compile, is too long or may cost too much. The API server refuses "
        "an object with it; the scheduler aborts every pod that meets it."
    ),
    example="it does not compile: line 1, column 8: undefined field 'labels'",
    remedy="Correct the expression; `drawbridge cel 'EXPR'` shows where it goes wrong.",
)
EXPRESSION_FAILS = Code(
    name="ExpressionFails",
    severity=Severity.ERROR,
    text=(
        "A selector fails on a device that is published. The scheduler does not pass over the "
        "device: it aborts the whole pod, on all nodes, as soon as it tries it."
    ),
    example="it fails on device d.io/n1/gpu-0: no such key: model",
    remedy=(
        "Ask for the driver first, and guard what not every device has: "
        'has(device.attributes["d.io"].model) && ...'
    ),
)
SELECTOR_NEVER_TRUE = Code(
    name="SelectorNeverTrue",
    severity=Severity.WARNING,
    text="The selectors of a class select no published device, so its claims never get one.",
    example="class gpu selects no device: it holds for none of the 8 devices",
    remedy="Compare the values in the expression with those the driver publishes.",
)
COMPATIBILITY_NEVER = Code(
    name="CompatibilityNever",
    severity=Severity.WARNING,
    text=(
        "A compatibleOnlyWith holds for no published device, so whoever has it is only ever "
        "allocated alone. Where that is meant, `false` says it."
    ),
    example="spec.devices[0].compatibleOnlyWith.expression: it holds for none of the 8 devices",
    remedy="Compare the values in the expression with those the driver publishes, or write false.",
)
READ_NOWHERE = Code(
    name="ReadNowhere",
    severity=Severity.WARNING,
    text="An expression reads an attribute or a capacity by a name that no device publishes.",
    example="it reads attribute d.io/modell, which no device publishes; did you mean model?",
    remedy="Correct the name, or ignore this where such devices are still to come.",
)

CODES = Codes(
    "judge",
    [
        OBJECT_TWICE,
        SLICE_OLD,
        NOTHING_TO_JUDGE,
        MORE_ALIKE,
        POOL_INCOMPLETE,
        POOL_COUNT_DISAGREES,
        NAME_TAKEN,
        NODE_SELECTOR_TERMS,
        COUNTER_UNKNOWN,
        COUNTER_EXCEEDED,
        COUNTER_NEGATIVE,
        GROUPS_MIXED,
        GROUPS_IDLE,
        GROUPS_ALONE,
        GROUPS_PAIRWISE,
        FIELD_DROPPED,
        COMPATIBILITY_ASYMMETRIC,
        COMPATIBILITY_SELF,
        ATTRIBUTE_TYPES,
        NAME_TWICE,
        NAME_SLASHES,
        STANDARD_ATTRIBUTE,
        PARTITION_TYPE_MISSING,
        PARTITION_TYPE_COST,
        EXTENDED_NAME_SHARED,
        EXPRESSION_REFUSED,
        EXPRESSION_FAILS,
        SELECTOR_NEVER_TRUE,
        COMPATIBILITY_NEVER,
        READ_NOWHERE,
    ],
)
