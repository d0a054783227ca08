"""Finds nodes whose devices a device plugin serves and no driver publishes.

During a migration, a node has the device plugin until it gets the driver. Its devices then join the
classes, so that other kinds of devices can still be added.
"""

from collections.abc import Collection, Iterable, Mapping

from drawbridge.dra.families import BY_DRIVER, Family, allocates_by
from drawbridge.dra.nodes import Node

# One node for each name of a device plugin and the drivers that publish devices there.
PluginNodes = Mapping[tuple[str, frozenset[str]], str]


def find_plugin_nodes(nodes: Iterable[tuple[Node, Iterable[str]]]) -> PluginNodes:
    """Return one node for each name in `allocatable` and set of drivers with devices there.

    The kubelet keeps the name, with the amount 0, after a device plugin has stopped. The driver may
    start next, so the name counts.
    """
    plugin_nodes: dict[tuple[str, frozenset[str]], str] = {}
    for node, drivers in nodes:
        names = [name for name in node.allocatable if "/" in name]
        publishing = frozenset(drivers) if names else frozenset[str]()
        for name in names:
            plugin_nodes.setdefault((name, publishing), node.name)
    return plugin_nodes


def describe_left_to_plugin(
    plugin_nodes: PluginNodes,
    drivers: Collection[str],
    extended: str,
    families: Mapping[str, Family] = BY_DRIVER,
) -> str:
    """Return why devices may join a class with these drivers and name; empty if none may."""
    for (name, publishing), node in plugin_nodes.items():
        is_published = any(
            driver in drivers or _allocates(driver, name, families) for driver in publishing
        )
        is_same = name == extended or any(_allocates(each, name, families) for each in drivers)
        if is_same and not is_published:
            return (
                f"node {node} has {name} from a device plugin, and no driver publishes its devices "
                "yet"
            )
    return ""


def _allocates(driver: str, name: str, families: Mapping[str, Family]) -> bool:
    family = families.get(driver)
    return family is not None and allocates_by(family, name)
