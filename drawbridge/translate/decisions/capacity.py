"""Compares the nodes that serve a request today with those that can serve its claims.

Nodes are compared and not amounts: a unit of a device plugin may be a share, and a device may serve
many claims.
"""

from collections.abc import Iterable, Iterator, Sequence

from drawbridge.documents.paths import format_path
from drawbridge.dra.counted import count_noun
from drawbridge.facts.model import Facts, ResourceFacts
from drawbridge.finding import Finding
from drawbridge.translate.decisions.codes import CAPACITY_SHRINKS
from drawbridge.translate.legacy.asks import Ask


def report_fewer_nodes(
    asks: Sequence[Ask], served: Iterable[object], classes: Sequence[str], facts: Facts | None
) -> Iterator[Finding]:
    """Report if device plugins serve the asks on more nodes than drivers serve the claims.

    `served` has the resources by which device plugins serve the asks.
    """
    plugins = [each for each in served if isinstance(each, ResourceFacts)]
    if facts is None or not facts.knows_offers or not plugins:
        return
    most = max(plugins, key=lambda each: each.nodes)
    offers = [each for each in facts.offers if set(classes) <= set(each.classes)]
    nodes = sum(each.nodes for each in offers if not each.dual)
    # The finding about a class without a device says more.
    if not offers or nodes >= most.nodes:
        return
    class_facts = [facts.find_class(name) for name in classes]
    devices = " and ".join(
        f"{count_noun(each.devices, 'device')} of class {each.name}" for each in class_facts if each
    )
    users = asks[0].users
    yield CAPACITY_SHRINKS.at(
        format_path(users[0].path) if users else "",
        f"device plugins offer {most.devices} of {most.name} on {count_noun(most.nodes, 'node')}, "
        f"but claims can use {count_noun(nodes, 'node')}; the cluster has {devices}",
    )
