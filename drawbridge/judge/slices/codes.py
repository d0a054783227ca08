"""Finding codes of what drivers publish: slices, pools, classes and expressions."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.PUBLISH)

OBJECT_TWICE = CODES.define(
    "ObjectTwice",
    Severity.WARNING,
    text=(
        "An object occurs more than once in the input. In a cluster the last one replaces the "
        "others."
    ),
    example="metadata.name: slice node-1-gpu occurs more than once; the last one applies",
    remedy="Remove or rename one of the objects.",
)
SLICE_OLD = CODES.define(
    "SliceOld",
    Severity.WARNING,
    text="A slice has a lower generation than another slice of its pool and is ignored.",
    example="spec.pool.generation: generation 3 of pool node-1 of gpu.example.com is ignored",
    remedy="Delete the slice, or publish it with the pool's current generation.",
)
POOL_OF_ANOTHER_NODE = CODES.define(
    "PoolOfAnotherNode",
    Severity.WARNING,
    text=(
        "A slice for one node names the pool of another node. Its devices have the same identity "
        "as devices of the other node with the same names. It decides nothing about that node."
    ),
    example=(
        "spec.pool.name: this slice for node gpu-b names pool gpu-a, which node gpu-a publishes"
    ),
    remedy=(
        "Name each pool after its node. If the driver does so, find out who wrote the slice: the "
        "node may be taken over."
    ),
)
NOTHING_TO_JUDGE = CODES.define(
    "NothingToJudge",
    Severity.INFO,
    text="The input has no object that this command checks.",
    example="no slice, class, claim, template, pod, workload or Configuration in the input",
    remedy="Pass files with such objects.",
)
MORE_ALIKE = CODES.define(
    "MoreAlike",
    Severity.INFO,
    text="An object has more findings of one code than the output shows.",
    example="62 more findings of CounterUnknown in this object are not shown",
    remedy="Correct the shown findings and run the command again.",
)
POOL_INCOMPLETE = CODES.define(
    "PoolIncomplete",
    Severity.ERROR,
    text=(
        "The newest generation of a pool does not have the stated number of slices. No device of "
        "the pool can be allocated, and requests for all devices fail on nodes that see the pool."
    ),
    example="spec.pool.resourceSliceCount: pool node-1 of gpu.example.com has 1 of 2 slices",
    remedy="Publish the missing slices, delete the surplus ones, or correct resourceSliceCount.",
)
POOL_COUNT_DISAGREES = CODES.define(
    "PoolCountDisagrees",
    Severity.ERROR,
    text=(
        "Slices of one pool and generation state different numbers of slices. Which number "
        "applies depends on the node."
    ),
    example="spec.pool.resourceSliceCount: this slice states 3 slices, but slice node-1-a states 2",
    remedy="Publish the same resourceSliceCount in all slices of a generation.",
)
NAME_TAKEN = CODES.define(
    "NameTaken",
    Severity.ERROR,
    text=(
        "A device or counter set has the name of another one in its pool. On nodes that see "
        "both, no device of the pool can be allocated; on other nodes both count as allocated "
        "together."
    ),
    example="spec.devices[0].name: device gpu-0 occurs more than once in pool p of d.io",
    remedy="Give devices and counter sets names that are unique in the pool.",
)
NODE_SELECTOR_TERMS = CODES.define(
    "NodeSelectorTerms",
    Severity.ERROR,
    text=(
        "A device's node selector has more than one term. The API server accepts it, but every "
        "allocation with the device fails."
    ),
    example="spec.devices[0].nodeSelector.nodeSelectorTerms: nodeSelectorTerms has 2 terms",
    remedy="Use one term, or publish one device for each term.",
)
COUNTER_UNKNOWN = CODES.define(
    "CounterUnknown",
    Severity.ERROR,
    text=(
        "A device consumes a counter or counter set that its pool does not have. The API server "
        "accepts it, but no device of the pool can be allocated."
    ),
    example="spec.devices[0].consumesCounters[0].counterSet: device gpu-0 consumes counter set x",
    remedy="Publish the counter in sharedCounters of a slice of the pool, or correct the name.",
)
COUNTER_EXCEEDED = CODES.define(
    "CounterExceeded",
    Severity.ERROR,
    text="A device consumes more than its counter set has, so it can never be allocated.",
    example=(
        "spec.devices[0].consumesCounters[0].counters[memory].value: device gpu-0 consumes 80Gi "
        "of memory, but counter set gpu-0 has 40Gi"
    ),
    remedy="Raise the counter's total, or reduce the amount that the device consumes.",
)
COUNTER_NEGATIVE = CODES.define(
    "CounterNegative",
    Severity.ERROR,
    text=(
        "A counter is negative. A negative total prevents the allocation of every device of the "
        "pool that consumes a counter; a negative amount gives other devices more than the total."
    ),
    example="spec.sharedCounters[0].counters[memory].value: counter memory of gpu-0 is -1",
    remedy="Publish an amount of 0 or more.",
)
GROUPS_MIXED = CODES.define(
    "GroupsMixed",
    Severity.WARNING,
    text=(
        "Some devices on a counter set have compatibility groups and others have none. The two "
        "kinds are never allocated at the same time."
    ),
    example="spec.devices[2].consumesCounters[0].compatibilityGroups: device mps-0 has no group",
    remedy="Give every device of the counter set a group, or remove all groups.",
)
GROUPS_IDLE = CODES.define(
    "GroupsIdle",
    Severity.WARNING,
    text="A device has compatibility groups on a counter set that no other device consumes.",
    example=(
        "spec.devices[0].consumesCounters[0].compatibilityGroups: no other device consumes gpu-0"
    ),
    remedy="Remove the groups, or make the intended devices consume the same counter set.",
)
GROUPS_ALONE = CODES.define(
    "GroupsAlone",
    Severity.WARNING,
    text=(
        "A device's compatibility groups exclude every other device of its counter set, although "
        "the counters are sufficient for both."
    ),
    example="device mig-0 is compatible with no other device on counter set gpu-0",
    remedy="Correct the group's name, or make the device consume the whole counter set.",
)
GROUPS_PAIRWISE = CODES.define(
    "GroupsPairwise",
    Severity.INFO,
    text=(
        "Devices share compatibility groups in pairs but have none in common. The scheduler "
        "requires a group that all devices on a counter set have."
    ),
    example=(
        "devices a, b, c share groups in pairs on counter set s, but no group is common to all "
        "three, so the scheduler never allocates all three"
    ),
    remedy=(
        "If the devices can be used at the same time, publish one group that all of them have. "
        "Otherwise, no action is needed."
    ),
)
FIELD_DROPPED = CODES.define(
    "FieldDropped",
    Severity.WARNING,
    text="A field is not part of the Kubernetes API. The API server silently drops it.",
    example="spec.devices[0].compatibleOnlyWith: device mig-0 has compatibleOnlyWith",
    remedy=(
        "Declare it in the slice's annotation drawbridge.dev/compatibility or in the configuration."
    ),
)
COMPATIBILITY_ASYMMETRIC = CODES.define(
    "CompatibilityAsymmetric",
    Severity.WARNING,
    text=(
        "A device's compatibleOnlyWith excludes another device that does not exclude it. The two "
        "are never allocated at the same time, but only one of them declares it."
    ),
    example="spec.devices[0]: device mig-0 excludes mps-0, but mps-0 does not exclude mig-0",
    remedy="Declare the exclusion on both devices, or on none.",
)
COMPATIBILITY_SELF = CODES.define(
    "CompatibilitySelf",
    Severity.WARNING,
    text=(
        "A device allows multiple allocations, but its own compatibleOnlyWith excludes the "
        "device, so it never gets a second share."
    ),
    example=(
        "spec.devices[0]: device mps-0 allows multiple allocations, but its rule excludes itself"
    ),
    remedy="Make the expression match the device itself, or remove allowMultipleAllocations.",
)
ATTRIBUTE_TYPES = CODES.define(
    "AttributeTypes",
    Severity.WARNING,
    text="An attribute has one type on some devices of a driver and another type on others.",
    example="spec.devices[1].attributes[numa]: d.io/numa has type string here and int in slice a",
    remedy="Publish the attribute with one type, or under two names.",
)
NAME_TWICE = CODES.define(
    "NameTwice",
    Severity.WARNING,
    text=(
        "A device publishes an attribute or a capacity under two names, with and without the "
        "domain of its driver. Both names mean the same. Constraints read the full name, but "
        "expressions read either of the two values."
    ),
    example="spec.devices[0].attributes[d.io/model]: model has the same meaning",
    remedy="Publish only one of the two names.",
)
NAME_SLASHES = CODES.define(
    "NameSlashes",
    Severity.WARNING,
    text=(
        "A name has more than one slash. The API server accepts it, but no expression can read it."
    ),
    example="spec.devices[0].attributes[a/b/c]: expressions cannot read a/b/c",
    remedy="Use one slash, between the domain and the name.",
)
STANDARD_ATTRIBUTE = CODES.define(
    "StandardAttribute",
    Severity.WARNING,
    text=(
        "A standard attribute does not have its standard type or form, so alignment with it fails."
    ),
    example="resource.kubernetes.io/pcieRoot of device nic-0 must be a string such as pci0000:3a",
    remedy="Publish the attribute in its standard form, or remove it.",
)
STANDARD_ATTRIBUTE_MISSPELT = CODES.define(
    "StandardAttributeMisspelt",
    Severity.WARNING,
    text=(
        "An attribute has the domain of the standard attributes and nearly the name of one, which "
        "nothing reads under this name."
    ),
    example="resource.kubernetes.io/pcieRoots of device gpu-0 is no standard attribute; did you "
    "mean pcieRoot?",
    remedy="Correct the name.",
)
PARTITION_TYPE_MISSING = CODES.define(
    "PartitionTypeMissing",
    Severity.WARNING,
    text="A partitionable device lacks the attribute that its slice names for the partition type.",
    example="spec.devices[0].attributes: device half-0 has no string attribute d.io/profile",
    remedy="Publish the attribute on every device that consumes counters.",
)
PARTITION_TYPE_COST = CODES.define(
    "PartitionTypeCost",
    Severity.WARNING,
    text="Two partitions of one type consume different amounts of counters.",
    example="spec.devices[1].consumesCounters: device half-1 consumes other amounts than half-0",
    remedy="Give partitions with different amounts different types.",
)
EXTENDED_NAME_SHARED = CODES.define(
    "ExtendedNameShared",
    Severity.WARNING,
    text=(
        "Two classes serve one extended resource name. Kubernetes does not require that the name "
        "is unique, and the scheduler uses only one of the classes."
    ),
    example="spec.extendedResourceName: class a serves example.com/gpu too",
    remedy="Set the name in one class only.",
)
EXPRESSION_REFUSED = CODES.define(
    "ExpressionRefused",
    Severity.ERROR,
    text=(
        "An expression does not compile, is too long or exceeds the cost limit. The API "
        "server rejects objects with it; the scheduler aborts every pod that evaluates it."
    ),
    example="does not compile: line 1, column 15: `=` is not an operator of CEL; write `==`",
    remedy="Correct the expression. Run `drawbridge cel 'EXPR'` to see the position of the error.",
)
EXPRESSION_FAILS = CODES.define(
    "ExpressionFails",
    Severity.ERROR,
    text=(
        "A selector fails on a published device. The scheduler does not skip the device: it "
        "aborts the whole pod, on all nodes, when it evaluates the selector."
    ),
    example="fails on device d.io/n1/gpu-0: no such key: model",
    remedy=(
        "Check the driver first. Guard attributes that some devices do not have: "
        'has(device.attributes["d.io"].model) && ...'
    ),
)
SELECTOR_NEVER_TRUE = CODES.define(
    "SelectorNeverTrue",
    Severity.WARNING,
    text="The selectors of a class match no published device, so its claims are never allocated.",
    example="class gpu selects no device: it matches none of 8 devices",
    remedy="Compare the values in the expression with those the driver publishes.",
)
COMPATIBILITY_NEVER = CODES.define(
    "CompatibilityNever",
    Severity.WARNING,
    text=(
        "A compatibleOnlyWith matches no published device, so devices with it are only allocated "
        "alone. If that is intended, use `false`."
    ),
    example="spec.devices[0].compatibleOnlyWith.expression: matches none of 8 devices of d.io",
    remedy="Compare the values in the expression with those the driver publishes, or use `false`.",
)
READ_NOWHERE = CODES.define(
    "ReadNowhere",
    Severity.WARNING,
    text="An expression reads an attribute or a capacity by a name that no device publishes.",
    example="reads attribute d.io/modell, which no device publishes; did you mean model?",
    remedy="Correct the name. Ignore this finding if such devices will be published later.",
)
SLICE_OF_MISSING_NODE = CODES.define(
    "SliceOfMissingNode",
    Severity.WARNING,
    text=(
        "A slice names a node that is not among the nodes of the input and the cluster. No pod "
        "gets its devices."
    ),
    example="spec.nodeName: there is no node gpu-7",
    remedy="Correct the name, or delete the slice if the node is gone.",
)
SHARED_WITHOUT_CAPACITY = CODES.define(
    "SharedWithoutCapacity",
    Severity.WARNING,
    text=(
        "A device allows multiple allocations but has no capacity, so any number of claims share "
        "it, and nothing limits what each of them gets."
    ),
    example="spec.devices[0]: gpu-0 can be allocated any number of times, without a capacity",
    remedy="Publish the capacity that claims consume. If no limit is intended, ignore this.",
)
CLASS_TAKES_ALL = CODES.define(
    "ClassTakesAll",
    Severity.WARNING,
    text=(
        "A class serves a resource name and has no selectors, so pods that request the name get "
        "devices of any driver."
    ),
    example="spec.selectors: class gpu serves nvidia.com/gpu with the devices of every driver",
    remedy='Select the driver: `device.driver == "gpu.nvidia.com"`.',
)
CONFIG_OF_OTHER_DRIVER = CODES.define(
    "ConfigOfOtherDriver",
    Severity.WARNING,
    text=(
        "A class has a configuration for a driver of which it selects no device. No driver ever "
        "reads it."
    ),
    example="spec.config[0].opaque.driver: class gpu selects no device of gpu.example.com",
    remedy="Correct the driver, or remove the configuration.",
)
TAINT_RULE_SELECTS_ALL = CODES.define(
    "TaintRuleSelectsAll",
    Severity.ERROR,
    text=(
        "A DeviceTaintRule has an empty `deviceSelector`, which selects every device of every "
        "driver in the cluster."
    ),
    example=(
        "spec.deviceSelector: rule broken selects every device of every driver with "
        "example.com/broken:NoExecute: every pod with devices is evicted, and no pod gets one, "
        "except pods that tolerate it"
    ),
    remedy=(
        "Name the driver, pool or device. If every device is meant, set the annotation "
        'drawbridge.dev/selects-all: "true" on the rule. `drawbridge simulate -f RULE.yaml` says '
        "whom it evicts."
    ),
)
TAINT_RULE_SELECTS_NOTHING = CODES.define(
    "TaintRuleSelectsNothing",
    Severity.WARNING,
    text="A DeviceTaintRule has no `deviceSelector`, so it taints no device.",
    example="spec: rule broken has no deviceSelector, so it taints no device",
    remedy="Name the driver, pool or device in `spec.deviceSelector`.",
)
