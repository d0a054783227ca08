"""What both network families do alike: nothing is shared, and settings that nobody can carry."""

from dra.finding import Finding
from translate.legacy.asks import Ask, VfSettings
from translate.targets import codes
from translate.targets.plan import DriverTarget, make_finding
from translate.targets.vocabulary import NotExpressibleError


def check_supported(ask: Ask, aim: DriverTarget) -> None:
    """Refuse what no network device is."""
    if ask.partition or ask.passthrough:
        raise NotExpressibleError(f"{aim.driver} has no partitions and no passthrough")


def report_shared(ask: Ask, aim: DriverTarget) -> tuple[Finding, ...]:
    """Tell that a share takes the whole."""
    if ask.share is None:
        return ()
    message = f"a share of a network device takes the whole one on {aim.driver}"
    return (make_finding(codes.SHARE_WHOLE, ask, message),)


def network_settings(ask: Ask) -> tuple[VfSettings, ...]:
    """The settings of network functions."""
    return tuple(each for each in ask.settings if isinstance(each, VfSettings))


def report_dropped(ask: Ask, setting: VfSettings, known: tuple[str, ...]) -> tuple[Finding, ...]:
    """Tell of the fixed values that have no place in the configuration."""
    names = [name for name, _ in setting.parameters if name not in known]
    where = setting.network or setting.interface or "the interface"
    return tuple(make_finding(codes.SETTING_DROPPED, ask, f"{name} of {where}") for name in names)
