"""Finds which of the offers in the facts are those of nodes like one node."""

from collections.abc import Sequence
from typing import NamedTuple

from drawbridge.config.model import Legacy
from drawbridge.dra.nodes import Node
from drawbridge.facts.model import Facts, NodeOffer
from drawbridge.facts.plugin_names import served_resources
from drawbridge.names import DUAL_LABEL


class SeenNode(NamedTuple):
    """A node, and the drivers that publish slices with its name."""

    node: Node
    drivers: frozenset[str] = frozenset()


def find_alike(seen: SeenNode, facts: Facts, legacy: Legacy) -> tuple[NodeOffer, ...]:
    """Return the offers of the nodes that have the same plugins and drivers as this one.

    None if it is not known what pods of this node will find: it is dual, or neither plugins nor
    drivers have come yet. Also none of a node whose classes have devices that are not its own.
    """
    node = seen.node
    if not facts.is_mixed or DUAL_LABEL in node.labels:
        return ()
    names = served_resources(node, legacy)
    drivers_of = {each.name: frozenset(each.drivers) for each in facts.classes}
    selected = seen.drivers & frozenset[str]().union(*drivers_of.values())
    return tuple(
        each
        for each in facts.offers
        if each.names == names
        and not each.dual
        and _has_drivers([drivers_of.get(name, frozenset()) for name in each.classes], selected)
    )


def _has_drivers(classes: Sequence[frozenset[str]], drivers: frozenset[str]) -> bool:
    """Whether each class has a device of these drivers, and no driver is left."""
    is_known = all(not drivers.isdisjoint(each) for each in classes)
    return is_known and drivers <= frozenset[str]().union(*classes)
