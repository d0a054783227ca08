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
    full = {
        "product": f"{domain}/model",
        "architecture": f"{domain}/family",
        "kernel": f"{domain}/driver",
        "memory": f"{domain}/memory",
    }
    return make_vocabulary(full, usual=frozenset({full["kernel"]}))


def plan_device(ask: Ask, target: DriverTarget) -> DevicePlan:
    """Plan the request of one device."""
    if ask.share is not None:
        raise NotExpressibleError(f"{target.driver} does not share its devices")
    if ask.partition:
        raise NotExpressibleError(f"{target.driver} does not support partitions")
    class_ = VFIO if ask.passthrough else target.class_
    return DevicePlan(class_=target.require_class(class_), ask_selectors=ask.selectors)
