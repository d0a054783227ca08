"""The nodes of the cluster as they are now, for what is placed in memory."""

from collections.abc import Iterable

from drawbridge.dra.nodes import Node
from drawbridge.facts.served_names import advertised_resources
from drawbridge.ledger.node_fit import ClusterNodes


def live_nodes(nodes: Iterable[Node]) -> ClusterNodes:
    """Return nodes with the names that device plugins serve there, and no class."""
    kept = tuple(nodes)
    advertised = {each.name: frozenset(advertised_resources(each)) for each in kept}
    return ClusterNodes(nodes=kept, advertised=advertised)
