"""hami-core-gpu.project-hami.io: GPUs shared by memory and cores, both of them enforced.

A capacity that is not named is taken as a whole, so cores without a limit are asked for as none.
The driver's limits are set for each claim and device: a claim holds a device once, and what may
share a device with it is in a claim of its own.
"""

from decimal import ROUND_CEILING

from dra.finding import Finding
from translate.legacy.asks import Ask, Bytes, DeviceShare, Isolation, Percent
from translate.targets import codes
from translate.targets.plan import DevicePlan, DriverTarget, RequestedAmount, make_finding
from translate.targets.vocabulary import (
    DriverVocabulary,
    NotExpressibleError,
    format_bytes,
    make_vocabulary,
)

DRIVER = "hami-core-gpu.project-hami.io"
MEMORY, CORES = "memory", "cores"
WHOLE = 100


def vocabulary(domain: str) -> DriverVocabulary:
    """What the driver publishes, in its own domain."""
    full = {
        "product": f"{domain}/productName",
        "architecture": f"{domain}/architecture",
        "uuid": f"{domain}/uuid",
        "memory": f"{domain}/{MEMORY}",
        "cores": f"{domain}/{CORES}",
    }
    return make_vocabulary(full, always=frozenset(full.values()))


def plan_device(ask: Ask, aim: DriverTarget) -> DevicePlan:
    """Say how one device is asked for."""
    if ask.partition or ask.passthrough:
        raise NotExpressibleError(f"{aim.driver} has no partitions and no passthrough")
    base = DevicePlan(
        class_=aim.offers(aim.class_),
        wanted=ask.selectors,
        percent_of=aim.products(types=("hami-gpu",)),
        distinct=aim.words.uuid,
        apart=True,
    )
    return base if ask.share is None else _shared(ask, ask.share, base, aim)


def _shared(ask: Ask, share: DeviceShare, base: DevicePlan, aim: DriverTarget) -> DevicePlan:
    if share.isolation is Isolation.MIG:
        raise NotExpressibleError(f"{aim.driver} has no partitions")
    if share.replica:
        raise NotExpressibleError(f"{aim.driver} shares by amounts, and a replica says none")
    aim.keeps("exactly.capacity")
    cores, losses = _cores(ask, share)
    amounts: dict[str, RequestedAmount] = {CORES: cores}
    if isinstance(share.memory, Bytes):
        amounts[MEMORY] = format_bytes(share.memory.value)
    elif share.memory is not None and share.memory.value > WHOLE:
        raise NotExpressibleError(
            f"{share.memory.value} percent of memory is more than a device has"
        )
    elif share.memory is not None and share.memory.value < WHOLE:
        amounts[MEMORY] = share.memory
    if cores == str(WHOLE) and MEMORY in amounts:
        message = f"all cores and a part of the memory on {aim.driver}"
        losses = (*losses, make_finding(codes.CORES_EXCLUSIVE, ask, message))
    if share.isolation is Isolation.NONE:
        message = f"who takes more than it asked for fails on {aim.driver}"
        losses = (*losses, make_finding(codes.LIMITS_ENFORCED, ask, message))
    return DevicePlan(
        class_=base.class_,
        wanted=base.wanted,
        percent_of=base.percent_of,
        distinct=base.distinct,
        apart=True,
        amounts=amounts,
        losses=losses,
    )


def _cores(ask: Ask, share: DeviceShare) -> tuple[str, tuple[Finding, ...]]:
    """Write the cores: none where they are not limited, whole percents where they are."""
    percent: Percent | None = share.cores
    if percent is None:
        return "0", ()
    if percent.value > WHOLE:
        raise NotExpressibleError(f"{percent.value} percent of cores is more than a device has")
    rounded = int(percent.value.to_integral_value(ROUND_CEILING))
    if rounded == percent.value:
        return str(rounded), ()
    message = f"{percent.value} percent of cores becomes {rounded}"
    return str(rounded), (make_finding(codes.ROUNDED, ask, message),)
