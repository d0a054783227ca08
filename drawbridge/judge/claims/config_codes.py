"""Finding codes about the opaque configurations of known drivers in claims and classes."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.WRITE_CLAIMS)

CONFIG_INVALID = CODES.define(
    "ConfigInvalid",
    Severity.ERROR,
    text=(
        "A configuration for a known driver cannot be decoded: it has an unknown kind, an unknown "
        "field, or a value of the wrong type. The driver decodes strictly and does not prepare "
        "the claim, so its pod never starts."
    ),
    example=(
        "spec.devices.config[0].opaque.parameters.sharing.stratgy: unknown field stratgy; did you "
        "mean strategy?"
    ),
    remedy=(
        "Correct the configuration. If the driver is newer than Drawbridge and knows the field, "
        "set `findings: {ConfigInvalid: warn}` in the configuration."
    ),
)
CONFIG_REFUSED = CODES.define(
    "ConfigRefused",
    Severity.ERROR,
    text=(
        "A configuration has values, or a combination of values, that its driver refuses when it "
        "prepares the claim. The pod is scheduled but never starts."
    ),
    example=(
        "spec.devices.config[0].opaque.parameters.sharing.mpsConfig.defaultActiveThreadPercentage: "
        "defaultActiveThreadPercentage is 150, must be 0 to 100"
    ),
    remedy="Use values that the driver accepts.",
)
CONFIG_OTHER_DRIVER = CODES.define(
    "ConfigOtherDriver",
    Severity.ERROR,
    text=(
        "A configuration names one driver, but its parameters are of a kind that only another "
        "driver decodes."
    ),
    example=(
        "spec.devices.config[0].opaque.driver: driver gpu.nvidia.com does not decode GpuConfig of "
        "gpu.resource.amd.com/v1alpha1, which is for gpu.amd.com"
    ),
    remedy="Name the driver that decodes the kind, or use a kind of the named driver.",
)
CONFIG_KIND_WRONG = CODES.define(
    "ConfigKindWrong",
    Severity.ERROR,
    text=(
        "A configuration is for another type of device than its request gets. The driver refuses "
        "to prepare such a claim. Of several configurations for one request, the last applies."
    ),
    example=(
        "spec.devices.config[0].opaque.parameters.kind: MigDeviceConfig configures devices of type "
        "mig, but request gpu gets devices of type gpu"
    ),
    remedy="Use the kind for the type of the request's devices, or request another class.",
)
CONFIG_KIND_TWICE = CODES.define(
    "ConfigKindTwice",
    Severity.WARNING,
    text=(
        "Configurations of two kinds apply to one request. The driver uses only the last one, and "
        "refuses it if it is for another type of device."
    ),
    example=(
        "spec.devices.config[0].opaque.parameters.kind: request gpu has a MigDeviceConfig, too, in "
        "config[1]; the driver uses only the last one"
    ),
    remedy="Keep one configuration for each request.",
)
CONFIG_VERSION_UNKNOWN = CODES.define(
    "ConfigVersionUnknown",
    Severity.WARNING,
    text=(
        "A configuration has an apiVersion that Drawbridge does not know for the driver, so its "
        "fields are not checked. It may be newer than the versions that Drawbridge knows."
    ),
    example=(
        "spec.devices.config[0].opaque.parameters.apiVersion: resource.nvidia.com/v1 is not a "
        "version that Drawbridge knows for gpu.nvidia.com: resource.nvidia.com/v1beta1"
    ),
    remedy="Compare the version with the documentation of the installed driver.",
)
CONFIG_NEEDS_GATE = CODES.define(
    "ConfigNeedsGate",
    Severity.WARNING,
    text=(
        "A setting works only with a feature gate of the driver that is off by default. Without "
        "the gate, the driver refuses to prepare the claim."
    ),
    example=(
        "spec.devices.config[0].opaque.parameters.sharing.strategy: strategy MPS needs "
        "MPSSupport=true"
    ),
    remedy=(
        "Check the feature gates of the installed driver. If they are enabled everywhere, set "
        "`findings: {ConfigNeedsGate: off}` in the configuration."
    ),
)
CONFIG_UNUSED = CODES.define(
    "ConfigUnused",
    Severity.WARNING,
    text=(
        "A configuration is for a driver that serves none of the requests it applies to. It has "
        "no effect."
    ),
    example=(
        "spec.devices.config[0].opaque.driver: no class of the requests selects devices of driver "
        "gpu.amd.com, so the configuration has no effect"
    ),
    remedy="Name the driver of the class, or remove the configuration.",
)
CONFIG_ON_ADMIN_ACCESS = CODES.define(
    "ConfigOnAdminAccess",
    Severity.WARNING,
    text=(
        "A configuration shares the device of a request with admin access. Sharing changes the "
        "whole device, which other claims use. Newer versions of the driver refuse it."
    ),
    example=(
        "spec.devices.config[0].requests: GpuConfig shares the device of request monitor, which "
        "has admin access"
    ),
    remedy="Remove the sharing, or apply it only to requests without admin access.",
)
