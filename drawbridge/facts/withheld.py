"""Finds the drivers whose devices on a node a device plugin allocates, or may have allocated.

Only what was seen on the node says so: a plugin of GPUs takes no NIC from claims.
"""

from collections.abc import Collection, Iterable, Mapping

from drawbridge.dra.families import Family, allocates_by
from drawbridge.dra.nodes import Node
from drawbridge.facts.model import ClassFacts
from drawbridge.facts.served_names import (
    advertised_resources,
    named_resources,
    registered_resources,
)
from drawbridge.names import DUAL_LABEL


def drivers_by_resource(classes: Iterable[ClassFacts]) -> dict[str, frozenset[str]]:
    """Return the drivers whose devices classes with an extended resource name select, by name."""
    drivers: dict[str, frozenset[str]] = {}
    for device_class in classes:
        if device_class.extended:
            drivers[device_class.extended] = drivers.get(device_class.extended, frozenset()).union(
                device_class.drivers
            )
    return drivers


def find_drivers(
    name: str, families: Mapping[str, Family], extended: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """Return the drivers whose devices a plugin that advertises `name` allocates, or parts."""
    drivers = (driver for driver, family in families.items() if allocates_by(family, name))
    return extended.get(name, frozenset()).union(drivers)


def find_withheld_drivers(
    node: Node,
    families: Mapping[str, Family],
    extended: Mapping[str, frozenset[str]],
    held: Collection[str] | None = None,
    publishing: Collection[str] | None = None,
) -> frozenset[str]:
    """Return the drivers whose devices on a node a device plugin allocates, or may have allocated.

    The allocator does not use their devices. `extended` is a result of `drivers_by_resource`, and
    `held` has the names that pods of the node hold from plugins; without it, they may hold each
    name of which the node has 0. The controller keeps the label of a dual node until the last pod
    with a device of the plugin has ended. The kubelet names what the plugin served until the node
    is registered again, and nobody knows later what a name meant. So each plugin of whole devices
    can be the cause of a label that no name explains: a plugin that serves explains it only if its
    driver publishes there too. Each driver counts as one that does, without `publishing`.
    """
    is_dual = DUAL_LABEL in node.labels
    seen = (named_resources if is_dual else registered_resources)(node).union(held or ())
    drivers = {name: find_drivers(name, families, extended) for name in seen}
    withheld = frozenset[str]().union(*drivers.values())
    if not is_dual:
        return withheld
    served = advertised_resources(node)
    gone = (seen if held is None else frozenset(held)) - served.keys()
    if all(drivers[name] for name in gone) and any(
        drivers[name].intersection(publishing) if name in served and publishing else drivers[name]
        for name in seen
    ):
        return withheld
    whole = (driver for driver, family in families.items() if family.legacy_names)
    return withheld.union(whole, *extended.values())
