"""Finding codes about what the selectors of claims read of devices."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.WRITE_CLAIMS)

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
        "dra.net/rdma, which device dra.net/n1/eth0 and 3 more of class dra.net do not have"
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
