"""dra.net: whole network interfaces, with RDMA if requested."""

from drawbridge.documents.values import Value
from drawbridge.translate.legacy.asks import Ask, VfSettings
from drawbridge.translate.legacy.selectors import NicKind
from drawbridge.translate.targets import nics
from drawbridge.translate.targets.plan import DevicePlan, DriverTarget
from drawbridge.translate.targets.vocabulary import (
    DriverVocabulary,
    NotExpressibleError,
    attribute_access,
    guard_attribute,
    make_vocabulary,
)


def vocabulary(domain: str) -> DriverVocabulary:
    """Return what the driver publishes, in its own domain."""
    rdma, virtual = f"{domain}/rdma", f"{domain}/virtual"
    nics_by_kind = {
        NicKind.RDMA: guard_attribute(rdma, "bool", f"{attribute_access(rdma)} == true"),
        NicKind.PF: guard_attribute(virtual, "bool", f"{attribute_access(virtual)} == false"),
    }
    return make_vocabulary(domain, {"product": "pciDevice"}, nics=nics_by_kind)


def plan_device(ask: Ask, target: DriverTarget) -> DevicePlan:
    """Plan the request of one device."""
    nics.check_supported(ask, target)
    settings = nics.network_settings(ask)
    if any(each.network or each.driver for each in settings):
        raise NotExpressibleError(
            f"{target.driver} supports neither network definitions nor kernel drivers"
        )
    losses = nics.report_shared(ask, target)
    for setting in settings:
        losses = (*losses, *nics.report_dropped(ask, setting, ("ips",)))
    return DevicePlan(
        class_=target.require_class(target.class_),
        ask_selectors=ask.selectors,
        parameters=tuple(_interface_config(each) for each in settings),
        losses=losses,
    )


def _interface_config(setting: VfSettings) -> Value:
    interface: dict[str, Value] = {}
    if setting.interface:
        interface["name"] = setting.interface
    fixed = dict(setting.parameters)
    if isinstance(fixed.get("ips"), list):
        interface["addresses"] = fixed["ips"]
    return {"interface": interface}
