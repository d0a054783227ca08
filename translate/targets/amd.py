"""gpu.amd.com: whole accelerators and partitions of them; nothing is shared."""

from translate.legacy.asks import Ask
from translate.targets.plan import Aim, Plan
from translate.targets.vocabulary import UnsayableError, Words, named

DRIVER = "gpu.amd.com"


def words(domain: str) -> Words:
    """What the driver publishes, in its own domain."""
    full = {
        "product": f"{domain}/productName",
        "architecture": f"{domain}/family",
        "driver_version": f"{domain}/driverVersion",
        "profile": f"{domain}/partitionProfile",
        "parent": f"{domain}/deviceID",
        "memory": f"{domain}/memory",
    }
    return named(full, always=frozenset(full.values()))


def plan(ask: Ask, aim: Aim) -> Plan:
    """Say how one device is asked for."""
    if ask.share is not None:
        raise UnsayableError(f"{aim.driver} does not share its devices")
    if ask.passthrough:
        raise UnsayableError(f"{aim.driver} has no passthrough")
    kind = "amdgpu-partition" if ask.partition else "amdgpu"
    return Plan(
        class_=aim.offers(aim.class_),
        selectors=(f'device.attributes["{aim.driver}"].type == "{kind}"',),
        wanted=ask.selectors,
        parent=aim.words.parent,
    )
