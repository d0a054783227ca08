"""What both network families do alike: nothing is shared, and settings that nobody can carry."""

from dra.finding import Finding
from translate.legacy.asks import Ask, Vf
from translate.targets import codes
from translate.targets.plan import Aim, tell
from translate.targets.vocabulary import UnsayableError


def refused(ask: Ask, aim: Aim) -> None:
    """Refuse what no network device is."""
    if ask.partition or ask.passthrough:
        raise UnsayableError(f"{aim.driver} has no partitions and no passthrough")


def shared(ask: Ask, aim: Aim) -> tuple[Finding, ...]:
    """Tell that a share takes the whole."""
    if ask.share is None:
        return ()
    message = f"a share of a network device takes the whole one on {aim.driver}"
    return (tell(codes.SHARE_WHOLE, ask, message),)


def functions(ask: Ask) -> tuple[Vf, ...]:
    """The settings of network functions."""
    return tuple(each for each in ask.settings if isinstance(each, Vf))


def unsaid(ask: Ask, setting: Vf, known: tuple[str, ...]) -> tuple[Finding, ...]:
    """Tell of the fixed values that have no place in the configuration."""
    names = [name for name, _ in setting.fixed if name not in known]
    where = setting.network or setting.interface or "the interface"
    return tuple(tell(codes.SETTING_DROPPED, ask, f"{name} of {where}") for name in names)
