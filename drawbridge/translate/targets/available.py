"""Lists the targets of an ask: the configured ones, else one for each known driver family.

With facts, only drivers whose DeviceClass exists are default targets. Drivers that publish devices
come first.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

import msgspec

from drawbridge.config.model import Configuration
from drawbridge.config.string_formats import DriverName, ObjectName, ResourceName
from drawbridge.config.target import Target
from drawbridge.dra.families import BY_DRIVER, BY_SHORT_NAME, FAMILIES, Family
from drawbridge.facts.families import PRODUCT_WORDS, find_family
from drawbridge.facts.model import Facts
from drawbridge.names import PARTITION_ATTRIBUTE
from drawbridge.translate.legacy.asks import Ask, Kind
from drawbridge.translate.targets import amd, dranet, generic, hami, intel, nvidia, sriov
from drawbridge.translate.targets.plan import DevicePlan, DriverTarget, Sharing
from drawbridge.translate.targets.vocabulary import DriverVocabulary


class FamilyModule(Protocol):
    """What the module of a driver family exports."""

    def vocabulary(self, domain: str) -> DriverVocabulary:
        """Return what the driver publishes; `domain` is the name of the driver."""

    def plan_device(self, ask: Ask, target: DriverTarget) -> DevicePlan:
        """Plan the request of one device."""


# By the short name of the family.
MODULES: Final[Mapping[str, FamilyModule]] = {
    "nvidia": nvidia,
    "hami": hami,
    "amd": amd,
    "intel": intel,
    "dranet": dranet,
    "sriov": sriov,
}
# Their modules read `sharing`, for clusters without devices.
_SHARING_WITHOUT_FACTS: Final = frozenset({"nvidia"})
_VOCABULARIES: Final[Mapping[str, DriverVocabulary]] = {
    name: module.vocabulary(BY_SHORT_NAME[name].driver)
    for name, module in MODULES.items()
    if name in BY_SHORT_NAME
}


def get_module(target: DriverTarget) -> FamilyModule:
    """Return the module of a target's driver family; for a declared driver, the generic one."""
    family = BY_DRIVER.get(target.family)
    return MODULES[family.short_name] if family else generic


def find_vocabulary(family: Family, configuration: Configuration) -> DriverVocabulary:
    """Return what devices of a family publish, in the words of claims for them."""
    for target in configuration.targets:
        if target.kind is not None and target.driver == family.driver:
            return _configured(target, None, configuration).vocabulary
    return _VOCABULARIES.get(family.short_name, DriverVocabulary())


def list_capacities(class_: str, configuration: Configuration) -> frozenset[str]:
    """Return the full names by which the drivers of a class surely publish capacities."""
    vocabularies = [
        find_vocabulary(family, configuration) for family in FAMILIES if class_ in family.classes
    ]
    for target in configuration.targets:
        if target.class_ == class_:
            vocabularies += [
                make(target, None, configuration).vocabulary for make in (_configured, _named)
            ]
    names = (
        (known.memory, known.cores, known.shares, *known.amounts.values()) for known in vocabularies
    )
    return frozenset(name for each in names for name in each if name)


def add_served_names(configuration: Configuration, facts: Facts | None) -> Configuration:
    """Add a target for each name that a DeviceClass serves and that no entry has."""
    served = [
        (each.name, facts.find_class(classes[0]))
        for each in (facts.names if facts else ())
        if facts
        and (classes := facts.find_resource(each.name).classes)
        and each.name not in configuration.named_devices
    ]
    targets = tuple(
        Target(
            # Without devices, no driver is known, and a claim needs none.
            driver=DriverName((*class_facts.drivers, class_facts.name)[0]),
            class_=ObjectName(class_facts.name),
            resources=(ResourceName(name),),
        )
        for name, class_facts in served
        if class_facts
    )
    if not targets:
        return configuration
    return msgspec.structs.replace(configuration, targets=(*configuration.targets, *targets))


def list_targets(
    ask: Ask, facts: Facts | None, configuration: Configuration
) -> tuple[DriverTarget, ...]:
    """Return the targets for an ask, in the order in which to try them."""
    if ask.named:
        devices = configuration.named_devices.get(ask.named)
        return (_named(devices.target, facts, configuration),) if devices else ()
    if ask.kind is Kind.OTHER:
        return ()
    if any(configured.kind for configured in configuration.targets):
        return tuple(
            _configured(configured, facts, configuration)
            for configured in configuration.targets
            if configured.kind == ask.kind.value
            and _same_vendor(ask.vendor, find_vendor(configured))
        )
    chosen = [
        DriverTarget(
            family.driver,
            family.driver,
            name,
            Sharing.NONE,
            _VOCABULARIES[family.short_name],
            facts,
            partitions=_list_partitions(family.driver, configuration),
        )
        for family in FAMILIES
        if family.kind == ask.kind and _same_vendor(ask.vendor, family.vendor)
        for name in _default_class(family, facts)
    ]
    # A DeviceClass may exist before its first device; pods should not wait for such a device.
    chosen.sort(key=lambda target: _rank_driver(target.driver, facts))
    return tuple(chosen)


def _rank_driver(name: str, facts: Facts | None) -> int:
    """Return the place of a driver: on several nodes, on one of many, or nowhere yet."""
    driver = facts.find_driver(name) if facts else None
    return 0 if facts is None else 2 if driver is None else int(driver.single)


def find_vendor(target: Target) -> str:
    """Return the vendor of the devices of a configured target; empty if it is not known."""
    family = find_family(target)
    return target.vendor or (family.vendor if family else "")


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
    if family is None:
        return _declared(target, facts, configuration, target.sharing)
    return DriverTarget(
        family.driver,
        f"{target.driver}",
        f"{target.class_}",
        target.sharing,
        MODULES[family.short_name].vocabulary(f"{target.driver}"),
        facts,
        partitions=_list_partitions(f"{target.driver}", configuration),
    )


def _named(target: Target, facts: Facts | None, configuration: Configuration) -> DriverTarget:
    """Return the target of a configured name, of whose devices only the entry tells."""
    sharing = Sharing.MEMORY if target.amounts else target.sharing
    return _declared(target, facts, configuration, sharing)


def find_unread(target: Target) -> Iterator[tuple[str, str]]:
    """Yield the fields of a target that are set and that nothing reads, with the reason."""
    family = find_family(target)
    is_gpu = target.kind == Kind.GPU.value
    # Of devices that names request, only the entry tells what they publish.
    is_declared = target.kind is not None and (family is None or bool(target.names))
    if target.kind is None:
        reason = "without kind, no request needs it"
    elif family is None or is_declared:
        reason = f"no request for a {target.kind} needs it"
    else:
        reason = f"what family {family.short_name} publishes is known"
    shares = target.sharing != Sharing.NONE.value
    by_kind = is_gpu and (family is None or family.short_name in _SHARING_WITHOUT_FACTS)
    if shares and not (by_kind or _has_counting_names(target)):
        yield "sharing", reason
    # The facts tell products apart, and several shared devices that a name requests must differ.
    read = PRODUCT_WORDS if target.kind is None else frozenset[str]()
    if target.names and (shares or target.amounts):
        read |= {"uuid"}
    for word in target.attributes if not is_declared else ():
        if word not in read:
            yield f"attributes[{word}]", reason
    for word in target.capacities if not (is_gpu and is_declared) else ():
        yield f"capacities[{word}]", reason


def _has_counting_names(target: Target) -> bool:
    """Whether names count devices, which may be shared. With amounts, they are shared anyway."""
    return bool(target.resources or target.selectors) and not target.amounts


def _declared(
    target: Target, facts: Facts | None, configuration: Configuration, sharing: str | int
) -> DriverTarget:
    """Return a target with the attributes and capacities that its entry declares."""
    vocabulary = generic.vocabulary(
        target.driver,
        {f"{word}": f"{name}" for word, name in target.attributes.items()},
        {f"{word}": f"{name}" for word, name in target.capacities.items()},
        {f"{name}": f"{capacity}" for name, capacity in target.amounts.items()},
    )
    return DriverTarget(
        "",
        f"{target.driver}",
        f"{target.class_}",
        sharing,
        vocabulary,
        facts,
        find_vendor(target),
        _list_partitions(f"{target.driver}", configuration),
    )
