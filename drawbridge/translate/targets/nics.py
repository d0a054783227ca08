"""Checks and findings that all drivers of network devices share."""

from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import Ask, VfSettings
from drawbridge.translate.targets import codes
from drawbridge.translate.targets.plan import DriverTarget, make_finding
from drawbridge.translate.targets.vocabulary import NotExpressibleError


def check_supported(ask: Ask, target: DriverTarget) -> None:
    """Raise NotExpressibleError for requests that no network device can satisfy."""
    if ask.partition or ask.passthrough:
        raise NotExpressibleError(f"{target.driver} supports neither partitions nor passthrough")


def report_shared(ask: Ask, target: DriverTarget) -> tuple[Finding, ...]:
    """Report that a share of a device allocates the whole device."""
    if ask.share is None:
        return ()
    message = f"a share of a network device takes the whole device on {target.driver}"
    return (make_finding(codes.SHARE_TAKES_WHOLE, ask, message),)


def network_settings(ask: Ask) -> tuple[VfSettings, ...]:
    """Return the settings of virtual functions and interfaces."""
    return tuple(each for each in ask.settings if isinstance(each, VfSettings))


def report_dropped(
    ask: Ask, setting: VfSettings, published: tuple[str, ...]
) -> tuple[Finding, ...]:
    """Report the parameters that the driver's configuration has no field for."""
    names = [name for name, _ in setting.parameters if name not in published]
    where = setting.network or setting.interface or "the interface"
    return tuple(
        make_finding(
            codes.SETTING_DROPPED, ask, f"{name} of {where} is not supported by the driver"
        )
        for name in names
    )
