"""The findings of this package."""

from dra.finding import Code, Codes, Severity

FIELD_MISSING = Code(
    name="FieldMissing",
    severity=Severity.ERROR,
    text="A required field is not there, or is null.",
    example="spec.pool.generation: generation is required and not there",
    remedy="Add the field.",
)
FIELD_UNKNOWN = Code(
    name="FieldUnknown",
    severity=Severity.ERROR,
    text="A field is not known where only known fields are accepted.",
    example="spec.nodename: there is no field nodename here",
    remedy="Correct the spelling or take the field out.",
)
WRONG_TYPE = Code(
    name="WrongType",
    severity=Severity.ERROR,
    text="A value has another type than its field.",
    example='spec.devices[3].attributes[model].int: int must be a whole number, not "A100"',
    remedy="Give the value the type of its field; in YAML, quote text that reads as a number.",
)
WRONG_VALUE = Code(
    name="WrongValue",
    severity=Severity.ERROR,
    text="A value has the right type but cannot be read: a malformed quantity, a number too large.",
    example="spec.devices[0].capacity[memory].value: value: '80GB' is not a quantity",
    remedy="Write the value in the form of its field.",
)
MORE_ERRORS = Code(
    name="MoreErrors",
    severity=Severity.ERROR,
    text="One object or list has more errors than are looked for.",
    example="there are more than 1000 errors; the others are not looked for",
    remedy="Correct the errors shown and look again.",
)
UNREADABLE_JSON = Code(
    name="UnreadableJSON",
    severity=Severity.ERROR,
    text="Bytes that should be JSON are not, or are nested too deeply.",
    example="JSON is malformed: invalid character (byte 17)",
    remedy="Correct the JSON at the place named.",
)
WRONG_KIND = Code(
    name="WrongKind",
    severity=Severity.ERROR,
    text="An object has another kind than what was asked for here.",
    example="kind: kind is Pod, expected ResourceSlice",
    remedy="Hand in an object of the kind named.",
)
UNSUPPORTED_VERSION = Code(
    name="UnsupportedVersion",
    severity=Severity.ERROR,
    text="An object has an API version that Drawbridge does not read.",
    example="apiVersion: resource.k8s.io/v1alpha2 is not read for ResourceSlice",
    remedy="Convert the object to resource.k8s.io/v1.",
)
TAINT_RULE_NARROWED = Code(
    name="TaintRuleNarrowed",
    severity=Severity.WARNING,
    text=(
        "A DeviceTaintRule selects by deviceClassName or selectors. Only the alphas up to "
        "Kubernetes 1.34 had these fields; newer servers drop them and taint more devices."
    ),
    example=(
        "spec.deviceSelector.selectors: selectors is not read: the rule taints what driver, pool "
        "and device select"
    ),
    remedy="Select by driver, pool and device.",
)
GATE_UNKNOWN = Code(
    name="FeatureGateUnknown",
    severity=Severity.ERROR,
    text="A feature gate is not known in the Kubernetes version at hand.",
    example="--feature-gates: DRADerivedAttributes is not known in Kubernetes 1.36",
    remedy="Correct the name, or choose the version that has the gate.",
)
GATE_LOCKED = Code(
    name="FeatureGateLocked",
    severity=Severity.ERROR,
    text="A feature gate is locked to on in the Kubernetes version at hand.",
    example="--feature-gates: DRAAdminAccess cannot be turned off in Kubernetes 1.36",
    remedy="Take the gate out.",
)
GATES_UNREADABLE = Code(
    name="FeatureGatesUnreadable",
    severity=Severity.ERROR,
    text="Feature gates are not written as Name=true or Name=false, separated by commas.",
    example='--feature-gates: "DRADeviceTaints" has no =true or =false',
    remedy="Write them as DRADeviceTaints=true,DRAListTypeAttributes=false.",
)
VERSION_UNSUPPORTED = Code(
    name="KubernetesVersionUnsupported",
    severity=Severity.ERROR,
    text="A Kubernetes version is not one that Drawbridge knows the rules of.",
    example='--kubernetes-version: "1.31" is not one of 1.34, 1.35, 1.36, 1.37',
    remedy="Name a supported version.",
)

MALFORMED = Code(
    name="Malformed",
    severity=Severity.ERROR,
    text="A name or value does not have the form that the API server asks of it.",
    example='spec.devices[0].name: name is "GPU_0": must be lower-case letters, digits and "-"',
    remedy="Write it in the form named.",
)
TOO_LONG = Code(
    name="TooLong",
    severity=Severity.ERROR,
    text="A text is longer than the API server takes.",
    example="spec.selectors[0].cel.expression: has 12000 bytes, at most 10240 are allowed",
    remedy="Shorten it.",
)
TOO_MANY = Code(
    name="TooMany",
    severity=Severity.ERROR,
    text="A list or map has more entries than the API server takes.",
    example="spec.devices: devices has 129 entries, at most 128 are allowed",
    remedy="Take entries out, or spread them over several objects.",
)
DUPLICATE = Code(
    name="Duplicate",
    severity=Severity.ERROR,
    text="A list has an entry twice that may be there only once.",
    example='spec.devices[5]: devices[5] repeats "gpu-0" of entry 2',
    remedy="Take one of the two out, or rename it.",
)
EITHER_OR = Code(
    name="EitherOr",
    severity=Severity.ERROR,
    text="Fields that exclude or need each other are not set as the API server wants them.",
    example="spec.devices.requests[0]: must have one of exactly, firstAvailable, not both",
    remedy="Set the fields as the message says.",
)
NOT_ALLOWED = Code(
    name="NotAllowed",
    severity=Severity.ERROR,
    text="A value is not one that the API server allows here.",
    example="spec.devices.requests[0].exactly.count: count is 0, must be above zero",
    remedy="Use an allowed value.",
)
REFERENCE_UNKNOWN = Code(
    name="ReferenceUnknown",
    severity=Severity.ERROR,
    text="A name refers to something that is not in the object.",
    example='spec.devices.constraints[0].requests[1]: requests[1] is "nic", no request is named so',
    remedy="Correct the name, or add what it refers to.",
)
CONSTRAINT_HALF_READ = Code(
    name="ConstraintHalfRead",
    severity=Severity.WARNING,
    text=(
        "A constraint has matchAttribute and distinctAttribute. The API server lets it pass, and "
        "the scheduler looks at matchAttribute alone."
    ),
    example="spec.devices.constraints[0].distinctAttribute: distinctAttribute is ignored",
    remedy="Make two constraints of it.",
)
REQUEST_POLICY_REFUSED = Code(
    name="RequestPolicyRefused",
    severity=Severity.ERROR,
    text="A capacity's request policy breaks a rule of the API server, which refuses the slice.",
    example=(
        "spec.devices[0].capacity[memory].requestPolicy.validRange.max: capacity memory: "
        "max 96Gi is above the capacity's value 80Gi"
    ),
    remedy="Correct the request policy.",
)
CAPACITY_UNUSABLE = Code(
    name="CapacityUnusable",
    severity=Severity.ERROR,
    text=(
        "The API server lets a capacity pass that has a negative amount, or a step that is not "
        "positive. The scheduler gives up on pods that come upon the device, or never takes it."
    ),
    example="spec.devices[0].capacity[memory].value: capacity memory: the amount -1 is negative",
    remedy="Publish amounts of zero or more, and steps above zero.",
)

COMPATIBILITY_ERROR = Code(
    name="CompatibilityError",
    severity=Severity.ERROR,
    text=(
        "The expression that says with what a device goes cannot be evaluated on another device. "
        "The two count as incompatible."
    ),
    example="d/p/gpu-0 counts as incompatible with d/p/gpu-1: no such key: mode",
    remedy="Guard the expression: test that an attribute is there before you use it.",
)

RULES_UNREADABLE = Code(
    name="RulesUnreadable",
    severity=Severity.ERROR,
    text="The annotation with the rules of a claim cannot be read, so none of them would hold.",
    example="metadata.annotations[drawbridge.dev/rules]: joint[0]: there is no field scope here",
    remedy="Take the annotation away, or let the pod be translated again.",
)
RULE_NAMES_NO_REQUEST = Code(
    name="RuleNamesNoRequest",
    severity=Severity.ERROR,
    text="A rule of a claim is about requests that the claim does not have.",
    example="metadata.annotations[drawbridge.dev/rules]: joint[0]: the claim has no request nic",
    remedy="Name the requests as the claim does, each once.",
)
RULE_WITHOUT_NUMBER = Code(
    name="RuleWithoutNumber",
    severity=Severity.ERROR,
    text="A rule is about a request for all devices there are, so nobody can count for it.",
    example="metadata.annotations[drawbridge.dev/rules]: joint[0]: request nic is for all devices",
    remedy="Ask for a number of devices.",
)

CODES = Codes(
    "dra",
    [
        FIELD_MISSING,
        FIELD_UNKNOWN,
        WRONG_TYPE,
        WRONG_VALUE,
        MORE_ERRORS,
        UNREADABLE_JSON,
        WRONG_KIND,
        UNSUPPORTED_VERSION,
        TAINT_RULE_NARROWED,
        GATE_UNKNOWN,
        GATE_LOCKED,
        GATES_UNREADABLE,
        VERSION_UNSUPPORTED,
        MALFORMED,
        TOO_LONG,
        TOO_MANY,
        DUPLICATE,
        EITHER_OR,
        NOT_ALLOWED,
        REFERENCE_UNKNOWN,
        CONSTRAINT_HALF_READ,
        REQUEST_POLICY_REFUSED,
        CAPACITY_UNUSABLE,
        COMPATIBILITY_ERROR,
        RULES_UNREADABLE,
        RULE_NAMES_NO_REQUEST,
        RULE_WITHOUT_NUMBER,
    ],
)
