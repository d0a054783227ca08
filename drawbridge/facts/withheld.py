"""Finds the drivers whose devices on a node a device plugin allocates, or may have allocated.

Only what was seen on the node says so: a plugin of GPUs takes no NIC from claims.
"""

from collections.abc import Iterable, Mapping

from drawbridge.dra.families import Family, allocates_by
from drawbridge.dra.nodes import Node
from drawbridge.facts.model import ClassFacts
from drawbridge.facts.served_names import registered_resources
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
    held: Iterable[str] = (),
) -> frozenset[str]:
    """Return the drivers whose devices on a node a device plugin allocates, or may have allocated.

    The allocator does not use their devices. `extended` is a result of `drivers_by_resource`, and
    `held` has the names that pods of the node hold from plugins. The controller keeps the label of
    a dual node until the last pod with a device of the plugin has ended. The kubelet names what the
    plugin served until the node is registered again; then each plugin of whole devices can be it.
    """
    is_dual = DUAL_LABEL in node.labels
    seen = registered_resources(node).union(held, node.allocatable if is_dual else ())
    drivers: set[str] = set()
    for name in seen:
        drivers |= find_drivers(name, families, extended)
    if is_dual and not drivers:
        drivers.update(driver for driver, family in families.items() if family.legacy_names)
        drivers.update(*extended.values())
    return frozenset(drivers)
