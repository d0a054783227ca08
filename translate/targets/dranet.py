"""dra.net: whole network interfaces, with RDMA where it is asked for."""

from documents.values import Value
from translate.legacy.asks import Ask, Vf
from translate.legacy.selectors import NicKind
from translate.targets import nics
from translate.targets.plan import Aim, Plan
from translate.targets.vocabulary import UnsayableError, Words

DRIVER = "dra.net"


def words(domain: str) -> Words:
    """What the driver publishes, in its own domain."""
    read = f'device.attributes["{domain}"]'
    return Words(
        product=f"{domain}/pciDevice",
        nics={
            NicKind.RDMA: f'("rdma" in {read} && {read}.rdma == true)',
            NicKind.PF: f'("virtual" in {read} && {read}.virtual == false)',
        },
    )


def plan(ask: Ask, aim: Aim) -> Plan:
    """Say how one device is asked for."""
    nics.refused(ask, aim)
    settings = nics.functions(ask)
    if any(each.network or each.driver for each in settings):
        raise UnsayableError(f"{aim.driver} sets up no network definition and no kernel driver")
    losses = nics.shared(ask, aim)
    for each in settings:
        losses = (*losses, *nics.unsaid(ask, each, ("ips",)))
    return Plan(
        class_=aim.offers(aim.class_),
        wanted=ask.selectors,
        parameters=tuple(_interface(each) for each in settings),
        losses=losses,
    )


def _interface(setting: Vf) -> Value:
    interface: dict[str, Value] = {}
    if setting.interface:
        interface["name"] = setting.interface
    fixed = dict(setting.fixed)
    if isinstance(fixed.get("ips"), list):
        interface["addresses"] = fixed["ips"]
    return {"interface": interface}
