"""gpu.intel.com: whole GPUs, told apart by their kernel driver; nothing is shared."""

from translate.legacy.asks import Ask
from translate.targets.plan import DevicePlan, DriverTarget
from translate.targets.vocabulary import DriverVocabulary, NotExpressibleError, make_vocabulary

DRIVER = "gpu.intel.com"
VFIO = "gpu-vfio.intel.com"


def vocabulary(domain: str) -> DriverVocabulary:
    """What the driver publishes, in its own domain."""
    full = {
        "product": f"{domain}/model",
        "architecture": f"{domain}/family",
        "kernel": f"{domain}/driver",
        "memory": f"{domain}/memory",
    }
    return make_vocabulary(full, always=frozenset({full["kernel"]}))


def plan_device(ask: Ask, aim: DriverTarget) -> DevicePlan:
    """Say how one device is asked for."""
    if ask.share is not None:
        raise NotExpressibleError(f"{aim.driver} does not share its devices")
    if ask.partition:
        raise NotExpressibleError(f"{aim.driver} has no partitions")
    wanted = VFIO if ask.passthrough else aim.class_
    return DevicePlan(class_=aim.offers(wanted), wanted=ask.selectors)
