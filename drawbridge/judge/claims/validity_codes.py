"""Finding codes about claims that no device can ever satisfy, or that the API server rejects."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.WRITE_CLAIMS)

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
