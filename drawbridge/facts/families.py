"""The driver families of a cluster: the known ones, and those that the Configuration declares."""

import functools
from collections.abc import Mapping
from typing import Final

import msgspec

from drawbridge.config.model import Configuration, Legacy
from drawbridge.config.target import Target
from drawbridge.dra.families import (
    BY_DRIVER,
    BY_SHORT_NAME,
    BY_VENDOR_WITHOUT_DRIVER,
    Family,
    allocates_by,
    serves_name,
)

_POOLS: Final = "sriov"  # the family whose devices networks name
# The words of `attributes` that tell the products of a declared family apart.
PRODUCT_WORDS: Final = frozenset({"product", "profile", "architecture"})


def find_family(target: Target) -> Family | None:
    """Return the known family of a configured target, if any."""
    if target.kind is None:
        return None  # the names of the entry say what is requested
    return BY_SHORT_NAME.get(target.family) if target.family else BY_DRIVER.get(target.driver)


class _Declared:
    """The parts of a frozen Configuration that declare families, as a key: by identity."""

    __slots__ = ("legacy", "targets")

    def __init__(self, configuration: Configuration) -> None:
        self.targets, self.legacy = configuration.targets, configuration.legacy

    def __hash__(self) -> int:
        return hash((id(self.targets), id(self.legacy)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Declared)
            and other.targets is self.targets
            and other.legacy is self.legacy
        )


def known_families(configuration: Configuration) -> Mapping[str, Family]:
    """Return the families by driver, including the drivers that the configuration declares.

    Results are cached: callers ask for each resource name of each node.
    """
    return _known_families(_Declared(configuration))


@functools.lru_cache(maxsize=16)
def _known_families(declared: _Declared) -> Mapping[str, Family]:
    families = dict(BY_DRIVER)
    # An entry with a kind describes the driver; others only add names.
    for target in sorted(declared.targets, key=lambda each: each.kind is None):
        family = families.get(target.driver) or _declared_family(target)
        names = (*family.legacy_names, *map(str, target.names))
        families[target.driver] = msgspec.structs.replace(family, legacy_names=names)
    legacy = declared.legacy
    if not legacy.renames and not legacy.networks:
        return families
    return {driver: _with_own_names(family, legacy) for driver, family in families.items()}


def _with_own_names(family: Family, legacy: Legacy) -> Family:
    """Add the names of this cluster: those that stand for others, and pools of networks."""
    names, others = list(family.legacy_names), list(family.other_names)
    if family.short_name == _POOLS:
        names += map(str, legacy.networks.values())
    for name, meant in legacy.renames.items():
        if serves_name(family, meant) or meant in names:
            names.append(f"{name}")
        elif allocates_by(family, meant):
            others.append(f"{name}")
    return msgspec.structs.replace(family, legacy_names=tuple(names), other_names=tuple(others))


def _declared_family(target: Target) -> Family:
    """Return the family of a driver that only the configuration names."""
    if like := find_family(target):
        return msgspec.structs.replace(like, driver=target.driver, classes=(target.class_,))
    of_vendor = BY_VENDOR_WITHOUT_DRIVER.get(target.vendor or "")
    attributes = {f"{name}": f"{attribute}" for name, attribute in target.attributes.items()}
    return Family(
        target.kind or "",
        target.driver,
        (target.class_,),
        name=attributes.get("product", ""),
        profile=attributes.get("profile", ""),
        architecture=attributes.get("architecture", ""),
        legacy_names=of_vendor.legacy_names if of_vendor else (),
    )
