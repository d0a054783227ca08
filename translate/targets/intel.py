"""gpu.intel.com: whole GPUs, told apart by their kernel driver; nothing is shared."""

from translate.legacy.asks import Ask
from translate.targets.plan import Aim, Plan
from translate.targets.vocabulary import UnsayableError, Words, named

DRIVER = "gpu.intel.com"
VFIO = "gpu-vfio.intel.com"


def words(domain: str) -> Words:
    """What the driver publishes, in its own domain."""
    full = {
        "product": f"{domain}/model",
        "architecture": f"{domain}/family",
        "kernel": f"{domain}/driver",
        "memory": f"{domain}/memory",
    }
    return named(full, always=frozenset({full["kernel"]}))


def plan(ask: Ask, aim: Aim) -> Plan:
    """Say how one device is asked for."""
    if ask.share is not None:
        raise UnsayableError(f"{aim.driver} does not share its devices")
    if ask.partition:
        raise UnsayableError(f"{aim.driver} has no partitions")
    wanted = VFIO if ask.passthrough else aim.class_
    return Plan(class_=aim.offers(wanted), wanted=ask.selectors)
