"""Finding codes about claims, templates and the pods that use them."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.WRITE_CLAIMS)

# Claims that the API server rejects or that no devices can ever satisfy.

ADMIN_ACCESS_DENIED = CODES.define(
    "AdminAccessDenied",
    Severity.ERROR,
    text=(
        "A request sets adminAccess in a namespace without the label that allows it. The API "
        "server rejects such claims and templates."
    ),
    example=(
        "spec.devices.requests[0].exactly.adminAccess: namespace ml does not have the label "
        "resource.kubernetes.io/admin-access: true"
    ),
    remedy=(
        "Remove adminAccess, or ask the administrator for a namespace with the label "
        'resource.kubernetes.io/admin-access: "true".'
    ),
)
CONSTRAINTS_CONTRADICT = CODES.define(
    "ConstraintsContradict",
    Severity.ERROR,
    text=(
        "A matchAttribute and a distinctAttribute require one attribute to be equal and different "
        "on the same devices. No devices satisfy both, so the claim is never allocated."
    ),
    example=(
        "spec.devices.constraints[1].distinctAttribute: constraints[0] requires the same value of "
        "resource.kubernetes.io/pcieRoot on 2 of these devices"
    ),
    remedy="Remove one of the two constraints, or apply them to different requests.",
)
TOO_MANY_DEVICES = CODES.define(
    "TooManyDevices",
    Severity.ERROR,
    text=(
        "A claim requests more devices than an allocation can have. The API server accepts the "
        "claim, but the scheduler reports an error for its pod, on every node."
    ),
    example="the claim needs at least 40 devices, but at most 32 are allowed",
    remedy="Distribute the devices over several claims of the pod.",
)

# References to other objects, and quotas.

CLASS_NOT_FOUND = CODES.define(
    "ClassNotFound",
    Severity.WARNING,
    text=(
        "A request names a DeviceClass that does not exist. Pods with the claim stay pending until "
        "the class is created."
    ),
    example=(
        "spec.devices.requests[0].exactly.deviceClassName: DeviceClass large-gpu does not exist"
    ),
    remedy="Correct the name, or create the class before the pods.",
)
CLASS_MISSPELT = CODES.define(
    "ClassMisspelt",
    Severity.ERROR,
    text=(
        "A request in a file names a DeviceClass that does not exist, and the name is nearly that "
        "of a class that does."
    ),
    example=(
        "spec.devices.requests[0].exactly.deviceClassName: DeviceClass gpu.nvidia.con does not "
        "exist; did you mean gpu.nvidia.com?"
    ),
    remedy="Correct the name. If the class comes later, set `findings: {ClassMisspelt: warn}`.",
)
CLAIM_NOT_FOUND = CODES.define(
    "ClaimNotFound",
    Severity.WARNING,
    text=(
        "A pod names a ResourceClaim or a ResourceClaimTemplate that does not exist in its "
        "namespace. The pod stays pending until the object is created, which may happen after the "
        "pod is created."
    ),
    example=(
        "spec.resourceClaims[0].resourceClaimTemplateName: ResourceClaimTemplate ml/one-gpu does "
        "not exist"
    ),
    remedy="Correct the name, or create the object in the namespace of the pod.",
)
REQUEST_NOT_FOUND = CODES.define(
    "RequestNotFound",
    Severity.ERROR,
    text=(
        "A container uses a request that its claim does not have. The pod runs, but the container "
        "gets no device."
    ),
    example=(
        "spec.containers[0].resources.claims[0].request: ResourceClaimTemplate ml/one-gpu has no "
        "request gpus; did you mean gpu?"
    ),
    remedy="Name a request of the claim, or no request to use all of its devices.",
)
CONTAINER_CLAIM_UNKNOWN = CODES.define(
    "ContainerClaimUnknown",
    Severity.ERROR,
    text=(
        "A container uses a claim that its pod does not list in resourceClaims. The API server "
        "rejects the pod."
    ),
    example="spec.containers[0].resources.claims[0].name: the pod has no claim gpu",
    remedy="Add the claim to spec.resourceClaims of the pod, or correct the name.",
)
POD_CLAIM_INVALID = CODES.define(
    "PodClaimInvalid",
    Severity.ERROR,
    text=(
        "An entry in resourceClaims of a pod names both a claim and a template, or neither, or has "
        "the name of another entry. The API server rejects the pod."
    ),
    example=(
        "spec.resourceClaims[0]: claim gpu needs resourceClaimName or resourceClaimTemplateName"
    ),
    remedy="Name one claim or one template in each entry, and use each entry's name once.",
)

QUOTA_TOO_SMALL = CODES.define(
    "QuotaTooSmall",
    Severity.ERROR,
    text=(
        "An object alone needs more than a ResourceQuota of its namespace allows. Its claims are "
        "never created, even if nothing else is in use. A request for all devices is charged as 32."
    ),
    example=(
        "spec.spec.devices.requests: ResourceQuota team limits "
        "gpu.nvidia.com.deviceclass.resource.k8s.io/devices to 4, but the object needs 8"
    ),
    remedy="Request fewer devices, or ask the administrator for a larger quota.",
)
QUOTA_USED_UP = CODES.define(
    "QuotaUsedUp",
    Severity.WARNING,
    text=(
        "A ResourceQuota of the namespace leaves less than an object needs. Its claims are created "
        "when others are deleted."
    ),
    example=(
        "spec.devices.requests: ResourceQuota team limits count/resourceclaims.resource.k8s.io to "
        "10, of which 10 are in use; the object needs 1"
    ),
    remedy="Delete claims that are not needed, or ask the administrator for a larger quota.",
)
QUOTA_OF_LEGACY_NAME = CODES.define(
    "QuotaOfLegacyName",
    Severity.WARNING,
    text=(
        "A ResourceQuota limits a legacy name, and the claims of an object need more than it "
        "allows. The API server does not charge claims to such an entry. The controller of "
        "Drawbridge mirrors entries for numbers of devices, so the claims may not be created."
    ),
    example=(
        "spec.devices.requests: ResourceQuota team limits requests.nvidia.com/gpu to 4, of which 0 "
        "are in use; the object needs 8, which the API server does not charge to this entry"
    ),
    remedy="Request less, or ask the administrator which limit applies to claims.",
)

# What the selectors of claims read of devices.

READ_UNGUARDED = CODES.define(
    "ReadUnguarded",
    Severity.WARNING,
    text=(
        "A selector reads an attribute or a capacity that some device of its class does not have. "
        "The scheduler does not skip such a device: it aborts the whole pod, on all nodes, when "
        "it evaluates the selector on it."
    ),
    example=(
        "spec.devices.requests[0].exactly.selectors[0].cel.expression: reads attribute "
        "dra.net/rdma, which device dra.net/n1/eth0 and 3 more devices of class dra.net do not have"
    ),
    remedy='Guard the attribute: has(device.attributes["dra.net"].rdma) && ...',
)
SELECTOR_MAY_FAIL = CODES.define(
    "SelectorMayFail",
    Severity.WARNING,
    text=(
        "A selector fails on a published device of its class, for example because a value has "
        "another type. The scheduler aborts the whole pod, on all nodes, when it evaluates the "
        "selector on this device."
    ),
    example=(
        "spec.devices.requests[0].exactly.selectors[0].cel.expression: fails on device "
        "d.io/n1/gpu-0 of class gpu: no such overload: _<_"
    ),
    remedy="Compare the attribute with a value of its type.",
)

# Opaque configurations for drivers.

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
CONFIG_ENDS_DRIVER = CODES.define(
    "ConfigEndsDriver",
    Severity.ERROR,
    text=(
        "A configuration ends the process of its driver on the node, at each attempt to prepare "
        "the claim and after each restart of the driver, until the pod is deleted. No other pod "
        "with claims of this driver can start on the node meanwhile. A driver that ends because "
        "it uses up the memory can end others of the node, too. Bridge placement never allocates "
        "such a claim. If the feature gate of the driver for the setting is off, the driver only "
        "refuses the claim."
    ),
    example=(
        "spec.devices.config[0].opaque.parameters.sharing.timeSlicingConfig: timeSlicingConfig "
        "without an interval ends the process of driver gpu.nvidia.com on the node"
    ),
    remedy=(
        "Set interval, for example to Default, or remove timeSlicingConfig. Name processors that "
        "the machine has."
    ),
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
    Severity.ERROR,
    text=(
        "A configuration has an apiVersion that no known release of the driver decodes. The driver "
        "and its own webhook refuse it, so the pod never starts. Its fields are not checked."
    ),
    example=(
        "spec.devices.config[0].opaque.parameters.apiVersion: resource.nvidia.com/v1 is not a "
        "version that Drawbridge knows for gpu.nvidia.com: resource.nvidia.com/v1beta1"
    ),
    remedy=(
        "Use a version that the installed driver decodes. If the driver is newer than Drawbridge "
        "and decodes it, set `findings: {ConfigVersionUnknown: warn}` in the configuration."
    ),
)
CONFIG_ON_MAIN_REQUEST = CODES.define(
    "ConfigOnMainRequest",
    Severity.WARNING,
    text=(
        "A configuration names a request with alternatives, but none of the alternatives. By the "
        "API it applies to all of them. The known drivers compare the whole name of what was "
        "allocated, such as gpu/large, and ignore it without a message."
    ),
    example=(
        "spec.devices.config[0].requests[0]: driver gpu.nvidia.com ignores a configuration for "
        "gpu, which has alternatives"
    ),
    remedy="Name the alternatives, in the form of request/alternative.",
)
CONFIG_NEEDS_GATE = CODES.define(
    "ConfigNeedsGate",
    Severity.WARNING,
    text=(
        "A setting works only with a feature gate of the driver that is off by default, or with "
        "newer builds of the driver. Others refuse to prepare the claim."
    ),
    example=(
        "spec.devices.config[0].opaque.parameters.sharing.strategy: strategy MPS needs "
        "MPSSupport=true"
    ),
    remedy=(
        "Check the release and the feature gates of the installed driver. If the setting works "
        "everywhere, set `findings: {ConfigNeedsGate: off}` in the configuration."
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
        "A configuration shares the device of a request with admin access, and so changes the "
        "whole device, which other claims use. NVIDIA's driver refuses, from release 0.5.0 on, "
        "each configuration that applies to such a request, also one for all requests."
    ),
    example=(
        "spec.devices.config[0].requests: GpuConfig shares the device of request monitor, which "
        "has admin access"
    ),
    remedy="Name the requests without admin access in the configuration, or remove it.",
)

# Claims and the published devices.

DEVICE_NEVER_ALLOCATED = CODES.define(
    "DeviceNeverAllocated",
    Severity.ERROR,
    text=(
        "Devices match a request, but none of them can ever be allocated, for example because a "
        "device consumes more of a counter than there is."
    ),
    example=(
        "spec.devices.requests[0]: 2 gpu.example.com devices match, but none can be allocated: "
        "counter memory of gpu-0 has 40Gi left, 80Gi needed"
    ),
    remedy="Correct the driver of the devices, or request other devices.",
)
DEVICES_NEVER_TOGETHER = CODES.define(
    "DevicesNeverTogether",
    Severity.ERROR,
    text=(
        "Each part of a claim or pod has suitable devices, but no node can give all parts at the "
        "same time: too few devices, or the devices exclude each other by counters, compatibility "
        "groups or `compatibleOnlyWith`."
    ),
    example=(
        "spec.devices.requests: no node can satisfy requests whole, half together: no "
        "gpu.example.com device with enough free counters: counter memory of gpu-0 has 0 left, "
        "40Gi needed"
    ),
    remedy="Request devices that one node can give together, or use several pods.",
)
CONSTRAINT_NEVER_MET = CODES.define(
    "ConstraintNeverMet",
    Severity.ERROR,
    text="No node has devices that satisfy a constraint of a claim.",
    example=(
        "spec.devices.constraints[0]: no node has devices for requests gpu, nic with the same "
        "resource.kubernetes.io/pcieRoot"
    ),
    remedy="Remove the constraint, or align by an attribute that more devices share.",
)
EVERY_DEVICE_TAINTED = CODES.define(
    "EveryDeviceTainted",
    Severity.WARNING,
    text=(
        "Suitable devices are published, but all of them have a taint that the request does not "
        "tolerate. The pod stays pending until the taint is removed."
    ),
    example=(
        "spec.devices: no node has suitable devices without a taint: no gpu.example.com device "
        "without an untolerated taint (8 of 8: example.com/unhealthy:NoSchedule)"
    ),
    remedy="Wait until the taint is removed, or add a toleration to the request.",
)
NO_ROOM_NOW = CODES.define(
    "NoRoomNow",
    Severity.WARNING,
    text=(
        "Nodes have suitable devices, but other claims use them. The pod stays pending until "
        "devices are released."
    ),
    example="spec.devices: no room now: 4 nodes: no free gpu.nvidia.com device (8 of 8 in use)",
    remedy="Wait until devices are released, or request fewer devices.",
)
JUDGEMENT_INCOMPLETE = CODES.define(
    "JudgementIncomplete",
    Severity.WARNING,
    text="Drawbridge cannot decide whether the published devices can satisfy a claim or pod.",
    example="spec.devices: cannot be decided: the search on node a reached its limit",
    remedy="Run `drawbridge simulate` on the object, or simplify its requests and constraints.",
)
