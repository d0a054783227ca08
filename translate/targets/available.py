"""Which targets there are: those of the configuration, else one for each known driver family.

Where facts are known, only drivers whose class exists are targets by default; those that publish
devices come first.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from config.model import Configuration, Target
from facts.families import FAMILIES, family_of
from facts.model import Facts
from translate.legacy.asks import Ask, Kind
from translate.targets import amd, dranet, generic, hami, intel, nvidia, sriov
from translate.targets.plan import DevicePlan, DriverTarget, Sharing
from translate.targets.vocabulary import DriverVocabulary


class FamilyPrinter(NamedTuple):
    """How a family says things, and whose devices they are."""

    vendor: str
    words: Callable[[str], DriverVocabulary]
    plan: Callable[[Ask, DriverTarget], DevicePlan]


PRINTERS: Final[Mapping[str, FamilyPrinter]] = {
    nvidia.DRIVER: FamilyPrinter("nvidia", nvidia.vocabulary, nvidia.plan_device),
    hami.DRIVER: FamilyPrinter("nvidia", hami.vocabulary, hami.plan_device),
    amd.DRIVER: FamilyPrinter("amd", amd.vocabulary, amd.plan_device),
    intel.DRIVER: FamilyPrinter("intel", intel.vocabulary, intel.plan_device),
    dranet.DRIVER: FamilyPrinter("", dranet.vocabulary, dranet.plan_device),
    sriov.DRIVER: FamilyPrinter("", sriov.vocabulary, sriov.plan_device),
}
_WORDS: Final[Mapping[str, DriverVocabulary]] = {
    driver: msgspec.structs.replace(each.words(driver), domain=driver)
    for driver, each in PRINTERS.items()
}
_GENERIC: Final = FamilyPrinter("", generic.vocabulary, generic.plan_device)


def get_printer(aim: DriverTarget) -> FamilyPrinter:
    """Who prints for a target."""
    return PRINTERS.get(aim.family, _GENERIC)


def list_targets(
    ask: Ask, facts: Facts | None, configuration: Configuration
) -> tuple[DriverTarget, ...]:
    """The targets that an ask may go to, in the order in which they are tried."""
    if ask.kind is Kind.OTHER:
        return ()
    if configuration.targets:
        named = [
            _configured(each, facts)
            for each in configuration.targets
            if Kind(each.kind) is ask.kind
        ]
        return tuple(each for each in named if _same_vendor(ask.vendor, get_printer(each).vendor))
    chosen = [
        DriverTarget(family.driver, family.driver, name, Sharing.NONE, _WORDS[family.driver], facts)
        for family in FAMILIES
        if family.kind == ask.kind and _same_vendor(ask.vendor, PRINTERS[family.driver].vendor)
        for name in _offered(family.classes, facts)
    ]
    # A class may be there before any device of it; pods should not wait for those.
    chosen.sort(key=lambda aim: facts is not None and facts.driver_named(aim.driver) is None)
    return tuple(chosen)


def _same_vendor(asked: str, spoken: str) -> bool:
    return not asked or not spoken or asked == spoken


def _offered(classes: tuple[str, ...], facts: Facts | None) -> tuple[str, ...]:
    """The first class of a family that exists; the others are for special asks."""
    if facts is None:
        return classes[:1]
    found = [name for name in classes if facts.class_named(name)]
    return (classes[0] if classes[0] in found else found[0],) if found else ()


def _configured(target: Target, facts: Facts | None) -> DriverTarget:
    known = family_of(target)
    if known is not None:
        words = PRINTERS[known.driver].words(target.driver)
    else:
        words = generic.vocabulary(
            target.driver,
            {f"{word}": f"{name}" for word, name in target.attributes.items()},
            {f"{word}": f"{name}" for word, name in target.capacities.items()},
        )
    words = msgspec.structs.replace(words, domain=f"{target.driver}")
    driver = known.driver if known else f"{target.driver}"
    return DriverTarget(
        driver, f"{target.driver}", f"{target.class_}", target.sharing, words, facts
    )
