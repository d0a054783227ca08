"""dra.net: whole network interfaces, with RDMA where it is asked for."""

from documents.values import Value
from translate.legacy.asks import Ask, VfSettings
from translate.legacy.selectors import NicKind
from translate.targets import nics
from translate.targets.plan import DevicePlan, DriverTarget
from translate.targets.vocabulary import DriverVocabulary, NotExpressibleError

DRIVER = "dra.net"


def vocabulary(domain: str) -> DriverVocabulary:
    """What the driver publishes, in its own domain."""
    read = f'device.attributes["{domain}"]'
    return DriverVocabulary(
        product=f"{domain}/pciDevice",
        nics={
            NicKind.RDMA: f'("rdma" in {read} && {read}.rdma == true)',
            NicKind.PF: f'("virtual" in {read} && {read}.virtual == false)',
        },
    )


def plan_device(ask: Ask, aim: DriverTarget) -> DevicePlan:
    """Say how one device is asked for."""
    nics.check_supported(ask, aim)
    settings = nics.network_settings(ask)
    if any(each.network or each.driver for each in settings):
        raise NotExpressibleError(
            f"{aim.driver} sets up no network definition and no kernel driver"
        )
    losses = nics.report_shared(ask, aim)
    for each in settings:
        losses = (*losses, *nics.report_dropped(ask, each, ("ips",)))
    return DevicePlan(
        class_=aim.offers(aim.class_),
        wanted=ask.selectors,
        parameters=tuple(_interface(each) for each in settings),
        losses=losses,
    )


def _interface(setting: VfSettings) -> Value:
    interface: dict[str, Value] = {}
    if setting.interface:
        interface["name"] = setting.interface
    fixed = dict(setting.parameters)
    if isinstance(fixed.get("ips"), list):
        interface["addresses"] = fixed["ips"]
    return {"interface": interface}
