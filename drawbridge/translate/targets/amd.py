"""gpu.amd.com: whole accelerators and their partitions; does not share devices."""

from drawbridge.translate.legacy.asks import Ask
from drawbridge.translate.legacy.selectors import DeviceLabel, LabelOperator
from drawbridge.translate.targets.plan import DevicePlan, DriverTarget
from drawbridge.translate.targets.vocabulary import (
    DriverVocabulary,
    Expression,
    NotExpressibleError,
    attribute_access,
    guard_attribute,
    make_vocabulary,
)


def vocabulary(domain: str) -> DriverVocabulary:
    """Return what the driver publishes, in its own domain."""
    names = {
        "product": "productName",
        "architecture": "family",
        "driver_version": "driverVersion",
        "profile": "partitionProfile",
        "parent": "deviceID",
        "memory": "memory",
    }
    return make_vocabulary(domain, names, usual=names)


def plan_device(ask: Ask, target: DriverTarget) -> DevicePlan:
    """Plan the request of one device."""
    if ask.share is not None:
        raise NotExpressibleError(f"{target.driver} does not share its devices")
    if ask.passthrough:
        raise NotExpressibleError(f"{target.driver} does not support passthrough")
    kind = "amdgpu-partition" if ask.partition else "amdgpu"
    return DevicePlan(
        class_=target.require_class(target.class_),
        selectors=(_express_type(kind, target),),
        ask_selectors=ask.selectors,
        parent=target.vocabulary.parent,
    )


def _express_type(kind: str, target: DriverTarget) -> Expression:
    name = f"{target.driver}/type"
    selector = DeviceLabel("type", LabelOperator.IN, (kind,), name)
    text = guard_attribute(name, "string", f'{attribute_access(name)} == "{kind}"')
    return Expression(text, selector, target.vocabulary)
