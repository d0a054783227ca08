"""sriovnetwork.k8snetworkplumbingwg.io: virtual functions, one for each network that is named.

The annotation that names networks stays on the pod, and Multus goes on setting them up; the driver
is only told what no network says.
"""

from documents.values import Value
from translate.legacy.asks import Ask, Distinctness, VfSettings
from translate.legacy.selectors import NicKind
from translate.targets import nics
from translate.targets.plan import DevicePlan, DriverTarget
from translate.targets.vocabulary import DriverVocabulary, NotExpressibleError

DRIVER = "sriovnetwork.k8snetworkplumbingwg.io"
API_VERSION = "sriovnetwork.k8snetworkplumbingwg.io/v1alpha1"


def vocabulary(domain: str) -> DriverVocabulary:
    """What the driver publishes, in its own domain and that of the device plugin."""
    read = f'device.attributes["{domain}"]'
    return DriverVocabulary(
        parent=f"{domain}/pfPciAddress",
        resource=f"{domain}/resourceName",
        resource_full="k8s.cni.cncf.io/resourceName",
        nics={
            NicKind.RDMA: f'("rdmaCapable" in {read} && {read}.rdmaCapable == true)',
            NicKind.VF: f'"vfID" in {read}',
        },
    )


def plan_device(ask: Ask, aim: DriverTarget) -> DevicePlan:
    """Say how one device is asked for."""
    nics.check_supported(ask, aim)
    settings = nics.network_settings(ask)
    if ask.count is not None and len(settings) > ask.count:
        raise NotExpressibleError(f"{len(settings)} networks are named for {ask.count} functions")
    losses = nics.report_shared(ask, aim)
    for each in settings:
        if not each.network:
            losses = (*losses, *nics.report_dropped(ask, each, ()))
    return DevicePlan(
        class_=aim.offers(aim.class_),
        wanted=ask.selectors,
        distinct=aim.words.parent if ask.distinct is Distinctness.PARENT else "",
        parameters=tuple(_function(each) for each in settings),
        losses=losses,
    )


def _function(setting: VfSettings) -> Value:
    """What the driver is told; nothing where the network says it all."""
    interface = "" if setting.network else setting.interface
    fields = {"driver": setting.driver, "ifName": interface}
    said: dict[str, Value] = {field: text for field, text in fields.items() if text}
    return {"apiVersion": API_VERSION, "kind": "VfConfig", **said} if said else None
