"""Lists the targets of an ask: the configured ones, else one for each known driver family.

With facts, only drivers whose DeviceClass exists are default targets. Drivers that publish devices
come first.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from drawbridge.config.model import Configuration, Target
from drawbridge.facts.families import FAMILIES, Family, find_family
from drawbridge.facts.model import Facts
from drawbridge.names import PARTITION_ATTRIBUTE
from drawbridge.translate.legacy.asks import Ask, Kind
from drawbridge.translate.targets import amd, dranet, generic, hami, intel, nvidia, sriov
from drawbridge.translate.targets.plan import DevicePlan, DriverTarget, Sharing
from drawbridge.translate.targets.vocabulary import DriverVocabulary


class FamilyPrinter(NamedTuple):
    """How a driver family plans requests, and the vendor of its devices."""

    vendor: str
    vocabulary: Callable[[str], DriverVocabulary]
    plan: Callable[[Ask, DriverTarget], DevicePlan]


PRINTERS: Final[Mapping[str, FamilyPrinter]] = {
    nvidia.DRIVER: FamilyPrinter("nvidia", nvidia.vocabulary, nvidia.plan_device),
    hami.DRIVER: FamilyPrinter("nvidia", hami.vocabulary, hami.plan_device),
    amd.DRIVER: FamilyPrinter("amd", amd.vocabulary, amd.plan_device),
    intel.DRIVER: FamilyPrinter("intel", intel.vocabulary, intel.plan_device),
    dranet.DRIVER: FamilyPrinter("", dranet.vocabulary, dranet.plan_device),
    sriov.DRIVER: FamilyPrinter("", sriov.vocabulary, sriov.plan_device),
}
_VOCABULARIES: Final[Mapping[str, DriverVocabulary]] = {
    driver: msgspec.structs.replace(printer.vocabulary(driver), domain=driver)
    for driver, printer in PRINTERS.items()
}
_CUSTOM: Final = FamilyPrinter("", generic.vocabulary, generic.plan_device)


def get_printer(target: DriverTarget) -> FamilyPrinter:
    """Return the printer of a target's driver family."""
    return PRINTERS.get(target.family, _CUSTOM)


def list_targets(
    ask: Ask, facts: Facts | None, configuration: Configuration
) -> tuple[DriverTarget, ...]:
    """Return the targets for an ask, in the order in which to try them."""
    if ask.kind is Kind.OTHER:
        return ()
    if configuration.targets:
        named = [
            _configured(configured, facts, configuration)
            for configured in configuration.targets
            if Kind(configured.kind) is ask.kind
        ]
        return tuple(each for each in named if _same_vendor(ask.vendor, get_printer(each).vendor))
    chosen = [
        DriverTarget(
            family.driver,
            family.driver,
            name,
            Sharing.NONE,
            _VOCABULARIES[family.driver],
            facts,
            _list_partitions(family.driver, configuration),
        )
        for family in FAMILIES
        if family.kind == ask.kind and _same_vendor(ask.vendor, PRINTERS[family.driver].vendor)
        for name in _default_class(family, facts)
    ]
    # A DeviceClass may exist before its first device; pods should not wait for such a device.
    chosen.sort(key=lambda target: facts is not None and facts.find_driver(target.driver) is None)
    return tuple(chosen)


def _same_vendor(requested: str, supported: str) -> bool:
    return not requested or not supported or requested == supported


def _default_class(family: Family, facts: Facts | None) -> tuple[str, ...]:
    """Return the class for whole devices of a family of which any class exists."""
    if facts is None:
        return family.classes[:1]
    classes = tuple(name for name in family.classes if facts.find_class(name))
    return (classes if family.one_class else family.classes)[:1] if classes else ()


def _list_partitions(driver: str, configuration: Configuration) -> dict[int, tuple[str, ...]]:
    """Return the attributes by which rules name the configured partitions of each size."""
    partitions: dict[int, dict[str, None]] = {}
    for entry in configuration.partitions:
        for size in {len(each) for each in entry.partitions} if entry.driver == driver else ():
            partitions.setdefault(size, {})[f"{entry.name or PARTITION_ATTRIBUTE}{size}"] = None
    return {size: tuple(names) for size, names in partitions.items()}


def _configured(target: Target, facts: Facts | None, configuration: Configuration) -> DriverTarget:
    family = find_family(target)
    if family is not None:
        vocabulary = PRINTERS[family.driver].vocabulary(target.driver)
    else:
        vocabulary = generic.vocabulary(
            target.driver,
            {f"{word}": f"{name}" for word, name in target.attributes.items()},
            {f"{word}": f"{name}" for word, name in target.capacities.items()},
        )
    vocabulary = msgspec.structs.replace(vocabulary, domain=f"{target.driver}")
    driver = family.driver if family else f"{target.driver}"
    return DriverTarget(
        driver,
        f"{target.driver}",
        f"{target.class_}",
        target.sharing,
        vocabulary,
        facts,
        _list_partitions(f"{target.driver}", configuration),
    )
