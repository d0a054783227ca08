"""gpu.amd.com: whole accelerators and partitions of them; nothing is shared."""

from translate.legacy.asks import Ask
from translate.targets.plan import DevicePlan, DriverTarget
from translate.targets.vocabulary import DriverVocabulary, NotExpressibleError, make_vocabulary

DRIVER = "gpu.amd.com"


def vocabulary(domain: str) -> DriverVocabulary:
    """What the driver publishes, in its own domain."""
    full = {
        "product": f"{domain}/productName",
        "architecture": f"{domain}/family",
        "driver_version": f"{domain}/driverVersion",
        "profile": f"{domain}/partitionProfile",
        "parent": f"{domain}/deviceID",
        "memory": f"{domain}/memory",
    }
    return make_vocabulary(full, always=frozenset(full.values()))


def plan_device(ask: Ask, aim: DriverTarget) -> DevicePlan:
    """Say how one device is asked for."""
    if ask.share is not None:
        raise NotExpressibleError(f"{aim.driver} does not share its devices")
    if ask.passthrough:
        raise NotExpressibleError(f"{aim.driver} has no passthrough")
    kind = "amdgpu-partition" if ask.partition else "amdgpu"
    return DevicePlan(
        class_=aim.offers(aim.class_),
        selectors=(f'device.attributes["{aim.driver}"].type == "{kind}"',),
        wanted=ask.selectors,
        parent=aim.words.parent,
    )
