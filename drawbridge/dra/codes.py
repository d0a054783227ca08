"""The finding codes of this package."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.READ)

FIELD_MISSING = CODES.define(
    "FieldMissing",
    Severity.ERROR,
    text="A required field is missing or null.",
    example="spec.pool.generation: generation is required",
    remedy="Add the field.",
)
FIELD_UNKNOWN = CODES.define(
    "FieldUnknown",
    Severity.ERROR,
    text="An object has an unknown field where unknown fields are not accepted.",
    example="spec.nodename: unknown field nodename",
    remedy="Correct the spelling or remove the field.",
)
FIELD_IGNORED = CODES.define(
    "FieldIgnored",
    Severity.WARNING,
    text="A spec has a field that Kubernetes does not know, so the API server drops the field.",
    example="devices[0].atributes: unknown field atributes is ignored; did you mean attributes?",
    remedy="Correct the spelling or remove the field.",
)
FIELD_MISPLACED = CODES.define(
    "FieldMisplaced",
    Severity.ERROR,
    text=(
        "A field is one level too high or too low, often because it has the form of another API "
        "version. The API server drops it, or rejects the object."
    ),
    example=(
        "spec.devices.requests[0].deviceClassName: deviceClassName belongs in requests[0].exactly: "
        "this is the form of v1beta1, but apiVersion is resource.k8s.io/v1"
    ),
    remedy="Move the field to the place that the message names.",
)
WRONG_TYPE = CODES.define(
    "WrongType",
    Severity.ERROR,
    text="A value does not have the type of its field.",
    example='spec.devices[3].attributes[model].int: int must be an integer, not "A100"',
    remedy="Use a value of the expected type.",
)
WRONG_VALUE = CODES.define(
    "WrongValue",
    Severity.ERROR,
    text=(
        "A value has the right type but is not valid, for example a malformed quantity or a "
        "number out of range."
    ),
    example="spec.devices[0].capacity[memory].value: value: '80GB' is not a quantity",
    remedy="Use a value that is valid for the field.",
)
MORE_ERRORS = CODES.define(
    "MoreErrors",
    Severity.ERROR,
    text="An object or list has more errors than Drawbridge reports.",
    example="there are more than 1000 errors; the remaining errors are not reported",
    remedy="Correct the reported errors and run the check again.",
)
UNREADABLE_JSON = CODES.define(
    "UnreadableJSON",
    Severity.ERROR,
    text="The input is not valid JSON or is nested too deeply.",
    example="JSON is malformed: invalid character (byte 17)",
    remedy="Correct the JSON at the reported position.",
)
WRONG_KIND = CODES.define(
    "WrongKind",
    Severity.ERROR,
    text="An object does not have the expected kind.",
    example="kind: kind is Pod, expected ResourceSlice",
    remedy="Use an object of the expected kind.",
)
UNSUPPORTED_VERSION = CODES.define(
    "UnsupportedVersion",
    Severity.ERROR,
    text="An object has an API version that Drawbridge does not support.",
    example=(
        "apiVersion: resource.k8s.io/v1alpha3 is not supported for ResourceClaim: Kubernetes 1.32 "
        "replaced it by v1beta1"
    ),
    remedy="Convert the object to resource.k8s.io/v1.",
)
TAINT_RULE_NARROWED = CODES.define(
    "TaintRuleNarrowed",
    Severity.WARNING,
    text=(
        "A DeviceTaintRule selects devices by deviceClassName or selectors. Only the alpha API "
        "versions up to Kubernetes 1.34 have these fields. Newer API servers drop them, so the "
        "rule taints more devices."
    ),
    example=(
        "spec.deviceSelector.selectors: selectors is ignored: the rule taints all devices that "
        "match driver, pool and device"
    ),
    remedy="Select devices by driver, pool and device.",
)
FEATURE_GATE_UNKNOWN = CODES.define(
    "FeatureGateUnknown",
    Severity.ERROR,
    text="A feature gate does not exist in the selected Kubernetes version.",
    example="--feature-gates: DRADerivedAttributes is not known in Kubernetes 1.36",
    remedy="Correct the name, or select a Kubernetes version that has the feature gate.",
)
FEATURE_GATE_LOCKED = CODES.define(
    "FeatureGateLocked",
    Severity.ERROR,
    text="A feature gate is always enabled in the selected Kubernetes version.",
    example="--feature-gates: DRAAdminAccess cannot be turned off in Kubernetes 1.36",
    remedy="Remove the feature gate from --feature-gates.",
)
FEATURE_GATES_UNREADABLE = CODES.define(
    "FeatureGatesUnreadable",
    Severity.ERROR,
    text="Feature gates are not a comma-separated list of Name=true or Name=false.",
    example='--feature-gates: "DRADeviceTaints" has no =true or =false',
    remedy="Write feature gates as DRADeviceTaints=true,DRAListTypeAttributes=false.",
)
KUBERNETES_VERSION_UNSUPPORTED = CODES.define(
    "KubernetesVersionUnsupported",
    Severity.ERROR,
    text="Drawbridge does not support the Kubernetes version.",
    example='--kubernetes-version: "1.31" is not one of 1.34, 1.35, 1.36, 1.37',
    remedy="Use a supported version.",
)

MALFORMED = CODES.define(
    "Malformed",
    Severity.ERROR,
    text="A name or value does not have the format that the API server requires.",
    example='spec.devices[0].name: name is "GPU_0": must be lower-case letters, digits and "-"',
    remedy="Use the required format.",
)
TOO_LONG = CODES.define(
    "TooLong",
    Severity.ERROR,
    text="A string is longer than the API server allows.",
    example="spec.selectors[0].cel.expression: has 12000 bytes, at most 10240 are allowed",
    remedy="Shorten the string.",
)
TOO_MANY = CODES.define(
    "TooMany",
    Severity.ERROR,
    text="A list or map has more entries than the API server allows.",
    example="spec.devices: devices has 129 entries, at most 128 are allowed",
    remedy="Remove entries, or distribute them over several objects.",
)
DUPLICATE = CODES.define(
    "Duplicate",
    Severity.ERROR,
    text="A list has two equal entries where entries must be unique.",
    example='spec.devices[5]: devices[5] repeats "gpu-0" of entry 2',
    remedy="Remove or rename one of the two entries.",
)
EITHER_OR = CODES.define(
    "EitherOr",
    Severity.ERROR,
    text="Fields that are mutually exclusive, or that require each other, are set inconsistently.",
    example=(
        "spec.devices.requests[0]: requests[0] has exactly and firstAvailable, which exclude each "
        "other"
    ),
    remedy="Set or remove the fields that the message names.",
)
NOT_ALLOWED = CODES.define(
    "NotAllowed",
    Severity.ERROR,
    text="The API server does not allow a value in this field.",
    example="spec.devices.requests[0].exactly.count: count is 0, must be greater than 0",
    remedy="Use an allowed value.",
)
REFERENCE_UNKNOWN = CODES.define(
    "ReferenceUnknown",
    Severity.ERROR,
    text="A name refers to something that the object does not contain.",
    example=(
        'spec.devices.constraints[0].requests[1]: requests[1] is "nic", but the claim has no '
        "request or subrequest with this name"
    ),
    remedy="Correct the name, or add the object that it refers to.",
)
CONSTRAINT_HALF_READ = CODES.define(
    "ConstraintHalfRead",
    Severity.WARNING,
    text=(
        "A constraint sets matchAttribute and distinctAttribute. The API server accepts it, but "
        "the scheduler ignores distinctAttribute."
    ),
    example=(
        "spec.devices.constraints[0].distinctAttribute: distinctAttribute is ignored because "
        "matchAttribute is also set"
    ),
    remedy="Split the constraint into two constraints.",
)
REQUEST_POLICY_REFUSED = CODES.define(
    "RequestPolicyRefused",
    Severity.ERROR,
    text="The request policy of a capacity is not valid. The API server rejects the ResourceSlice.",
    example=(
        "spec.devices[0].capacity[memory].requestPolicy.validRange.max: capacity memory: "
        "max 96Gi is above the capacity's value 80Gi"
    ),
    remedy="Correct the request policy.",
)
CAPACITY_UNUSABLE = CODES.define(
    "CapacityUnusable",
    Severity.ERROR,
    text=(
        "A capacity has a negative amount, or a step that is not positive. The API server accepts "
        "it, but the scheduler either cannot schedule pods that could use the device, or never "
        "allocates the device."
    ),
    example="spec.devices[0].capacity[memory].value: capacity memory: the amount -1 is negative",
    remedy="Publish amounts of 0 or more, and steps greater than 0.",
)

COMPATIBILITY_ERROR = CODES.define(
    "CompatibilityError",
    Severity.ERROR,
    text=(
        "The compatibility expression of a device cannot be evaluated on another device. "
        "The two devices are treated as incompatible."
    ),
    example="d/p/gpu-0 counts as incompatible with d/p/gpu-1: no such key: mode",
    remedy=(
        'Guard attributes that some devices do not have: has(device.attributes["d.io"].mode) && ...'
    ),
)

RULES_UNREADABLE = CODES.define(
    "RulesUnreadable",
    Severity.ERROR,
    text="The rules annotation of a claim is not valid, so none of its rules can be enforced.",
    example="metadata.annotations[drawbridge.dev/rules]: joint[0]: unknown field scope",
    remedy="Remove the annotation, or recreate the pod so that Drawbridge translates it again.",
)
RULE_NAMES_NO_REQUEST = CODES.define(
    "RuleNamesNoRequest",
    Severity.ERROR,
    text="A rule of a claim refers to a request that the claim does not have.",
    example="metadata.annotations[drawbridge.dev/rules]: joint[0]: the claim has no request nic",
    remedy="Use the request names of the claim, each name only once per rule.",
)
RULE_WITHOUT_NUMBER = CODES.define(
    "RuleWithoutNumber",
    Severity.ERROR,
    text=(
        "A rule refers to a request with allocationMode All. Rules need requests with a fixed "
        "number of devices."
    ),
    example=(
        "metadata.annotations[drawbridge.dev/rules]: joint[0]: request nic has allocationMode All, "
        "but a rule needs a count"
    ),
    remedy="Request a fixed number of devices.",
)
