"""gpu.intel.com: whole GPUs, selected by their kernel driver; does not share devices."""

from drawbridge.translate.legacy.asks import Ask
from drawbridge.translate.targets.plan import DevicePlan, DriverTarget
from drawbridge.translate.targets.vocabulary import (
    DriverVocabulary,
    NotExpressibleError,
    make_vocabulary,
)

VFIO = "gpu-vfio.intel.com"


def vocabulary(domain: str) -> DriverVocabulary:
    """Return what the driver publishes, in its own domain."""
    names = {"product": "model", "architecture": "family", "kernel": "driver", "memory": "memory"}
    return make_vocabulary(domain, names, usual=("kernel",))


def plan_device(ask: Ask, target: DriverTarget) -> DevicePlan:
    """Plan the request of one device."""
    if ask.share is not None:
        raise NotExpressibleError(f"{target.driver} does not share its devices")
    if ask.partition:
        raise NotExpressibleError(f"{target.driver} does not support partitions")
    class_ = VFIO if ask.passthrough else target.class_
    return DevicePlan(class_=target.require_class(class_), ask_selectors=ask.selectors)
