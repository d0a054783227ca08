"""Compute what nodes offer together: DeviceClasses with devices, and names of device plugins.

A pod runs on one node, so its claims and the requests that stay with a plugin must be served there.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from drawbridge.config.model import Legacy
from drawbridge.config.string_formats import ResourceName
from drawbridge.dra.families import COMPANIONS
from drawbridge.dra.nodes import Node
from drawbridge.facts.device_counts import NodeDevices, ProductKey
from drawbridge.facts.model import NodeOffer
from drawbridge.facts.served_names import DualNode, advertised_resources
from drawbridge.names import DUAL_LABEL

# In the offer of one node, which has some ten. No node fills the table of all.
MAX_BYTES_OF_NAMES: Final = 4000


def offer_table(
    nodes: Iterable[Node],
    readable: Iterable[NodeDevices],
    counted: Mapping[str, Counter[ProductKey]],
    dual_nodes: Iterable[DualNode],
    legacy: Legacy,
) -> list[NodeOffer]:
    """Count the nodes with equal offers. Nodes without any devices do not count."""
    products = {each.node.name: frozenset(each.products) for each in readable}
    dual = {each.node for each in dual_nodes}
    classes = _classes_by_products(products.values(), counted)
    nodes_by_offer: Counter[NodeOffer] = Counter()
    listed = [(node, served_resources(node, legacy)) for node in nodes]
    counts = Counter(name for _, names in listed for name in names)
    for node, names in listed:
        offer = NodeOffer(
            classes[products.get(node.name, frozenset())],
            _limit_names(names, counts),
            dual=node.name in dual or DUAL_LABEL in node.labels,
        )
        if offer.classes or offer.names:
            nodes_by_offer[offer] += 1
    return [msgspec.structs.replace(offer, nodes=count) for offer, count in nodes_by_offer.items()]


def _classes_by_products(
    sets: Iterable[frozenset[ProductKey]], counted: Mapping[str, Counter[ProductKey]]
) -> dict[frozenset[ProductKey], tuple[str, ...]]:
    """Return the classes that select a device, for each set of products on a node."""
    return {
        products: tuple(sorted(name for name, keys in counted.items() if products & keys.keys()))
        for products in {*sets, frozenset[ProductKey]()}
    }


def _limit_names(names: tuple[str, ...], counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return the names that most nodes serve, as far as the offer of a node has room for them."""
    kept, left = [], MAX_BYTES_OF_NAMES
    for name in sorted(names, key=lambda each: (-counts[each], each)):
        left -= len(name)
        if left < 0:
            break
        kept.append(name)
    return tuple(sorted(kept))


def served_resources(node: Node, legacy: Legacy) -> tuple[str, ...]:
    """Return the extended resources that device plugins serve on a node, sorted.

    Some schedulers read names that no node advertises, such as the memory of a share. The plugin
    shows by an annotation of the node, or by another name, that they apply there.
    """
    advertised = advertised_resources(node)
    resources = {f"{legacy.renames.get(ResourceName(name), name)}" for name in advertised}
    companions = set(_companions({*resources, *node.registrations}))
    renamed = {f"{name}" for name, known in legacy.renames.items() if known in companions}
    return tuple(sorted({*advertised, *companions, *renamed}))


def _companions(marks: Iterable[str]) -> Iterator[str]:
    for mark in marks:
        yield from COMPANIONS.get(mark, ())
