"""hami-core-gpu.project-hami.io: GPUs shared by memory and cores, with both limits enforced.

The driver takes all of a capacity that a request does not name, so a request without a cores limit
requests 0 cores. The driver sets its limits per claim and device, so a claim holds a device only
once, and every ask that may share a device gets a claim of its own.
"""

from decimal import ROUND_CEILING

import msgspec

from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import Ask, Bytes, DeviceShare, Isolation, Percent
from drawbridge.translate.targets import codes
from drawbridge.translate.targets.plan import (
    DevicePlan,
    DriverTarget,
    RequestedAmount,
    make_finding,
)
from drawbridge.translate.targets.vocabulary import (
    NO_REPLICA,
    WHOLE_DEVICE,
    DriverVocabulary,
    NotExpressibleError,
    format_bytes,
    make_vocabulary,
)

MEMORY, CORES = "memory", "cores"
WHOLE = 100


def vocabulary(domain: str) -> DriverVocabulary:
    """Return what the driver publishes, in its own domain."""
    names = {
        "product": "productName",
        "architecture": "architecture",
        "uuid": "uuid",
        "memory": MEMORY,
        "cores": CORES,
    }
    return make_vocabulary(domain, names, usual=names)


def plan_device(ask: Ask, target: DriverTarget) -> DevicePlan:
    """Plan the request of one device."""
    if ask.partition or ask.passthrough:
        raise NotExpressibleError(f"{target.driver} supports neither partitions nor passthrough")
    base = DevicePlan(
        class_=target.require_class(target.class_),
        ask_selectors=ask.selectors,
        percent_of=target.products(types=("hami-gpu",)),
        distinct=target.vocabulary.uuid,
        exclusive=True,
    )
    return base if ask.share is None else _shared(ask, ask.share, base, target)


def _shared(ask: Ask, share: DeviceShare, base: DevicePlan, target: DriverTarget) -> DevicePlan:
    if share.isolation is Isolation.MIG:
        raise NotExpressibleError(f"{target.driver} does not support partitions")
    if share.replica:
        raise NotExpressibleError(
            f"{target.driver} shares devices by amount, but a replica specifies none",
            NO_REPLICA,
        )
    target.require_field("exactly.capacity")
    cores, losses = _cores_amount(ask, share)
    amounts: dict[str, RequestedAmount] = {CORES: cores}
    if isinstance(share.memory, Bytes):
        amounts[MEMORY] = format_bytes(share.memory.value)
    elif share.memory is not None and share.memory.value > WHOLE:
        raise NotExpressibleError(
            f"{share.memory.value} percent of memory is more than a device has", WHOLE_DEVICE
        )
    elif share.memory is not None and share.memory.value < WHOLE:
        amounts[MEMORY] = share.memory
    if cores == str(WHOLE) and MEMORY in amounts:
        message = (
            f"all cores of a device of {target.driver} are requested, but only a part of its "
            "memory, so pods that request memory without cores can share the device"
        )
        losses = (*losses, make_finding(codes.OTHERS_WITHOUT_CORES_JOIN, ask, message))
    if share.isolation is Isolation.NONE:
        message = f"a container that uses more than it requests fails on {target.driver}"
        losses = (*losses, make_finding(codes.LIMITS_ENFORCED, ask, message))
    return msgspec.structs.replace(base, amounts=amounts, losses=losses)


def _cores_amount(ask: Ask, share: DeviceShare) -> tuple[str, tuple[Finding, ...]]:
    """Return the cores to request: 0 without a limit, else percent, rounded up."""
    percent: Percent | None = share.cores
    if percent is None:
        return "0", ()
    if percent.value > WHOLE:
        raise NotExpressibleError(
            f"{percent.value} percent of cores is more than a device has", WHOLE_DEVICE
        )
    rounded = int(percent.value.to_integral_value(ROUND_CEILING))
    if rounded == percent.value:
        return str(rounded), ()
    message = f"{percent.value} percent of cores becomes {rounded}"
    return str(rounded), (make_finding(codes.AMOUNT_ROUNDED, ask, message),)
