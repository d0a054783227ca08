"""sriovnetwork.k8snetworkplumbingwg.io: virtual functions, one for each requested network.

The annotation that requests networks stays on the pod, and Multus still configures them. The
driver's configuration holds only the settings that no network definition has.
"""

from drawbridge.documents.values import Value
from drawbridge.translate.legacy.asks import Ask, Distinctness, VfSettings
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

API_VERSION = "sriovnetwork.k8snetworkplumbingwg.io/v1alpha1"


def vocabulary(domain: str) -> DriverVocabulary:
    """Return what the driver publishes, in its own domain and the device plugin's."""
    read, rdma = f'device.attributes["{domain}"]', f"{domain}/rdmaCapable"
    names = {
        "parent": "pfPciAddress",
        "resource": "resourceName",
        "resource_full": "k8s.cni.cncf.io/resourceName",
    }
    nics_by_kind = {
        NicKind.RDMA: guard_attribute(rdma, "bool", f"{attribute_access(rdma)} == true"),
        NicKind.VF: f'"vfID" in {read}',
    }
    return make_vocabulary(domain, names, nics=nics_by_kind)


def plan_device(ask: Ask, target: DriverTarget) -> DevicePlan:
    """Plan the request of one device."""
    nics.check_supported(ask, target)
    settings = nics.network_settings(ask)
    if ask.count is not None and len(settings) > ask.count:
        raise NotExpressibleError(
            f"{len(settings)} networks requested, but only {ask.count} virtual functions",
            "Request one virtual function for each network.",
        )
    losses = nics.report_shared(ask, target)
    for setting in settings:
        if not setting.network:
            losses = (*losses, *nics.report_dropped(ask, setting, ()))
    return DevicePlan(
        class_=target.require_class(target.class_),
        ask_selectors=ask.selectors,
        distinct=target.vocabulary.parent if ask.distinct is Distinctness.PARENT else "",
        parameters=tuple(_vf_config(each) for each in settings),
        losses=losses,
    )


def _vf_config(setting: VfSettings) -> Value:
    """Return the driver's configuration; None if the network definition has all settings."""
    interface = "" if setting.network else setting.interface
    fields = {"driver": setting.driver, "ifName": interface}
    config: dict[str, Value] = {field: text for field, text in fields.items() if text}
    return {"apiVersion": API_VERSION, "kind": "VfConfig", **config} if config else None
