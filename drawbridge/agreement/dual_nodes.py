"""Describes the nodes where a device plugin and ResourceSlices offer the same devices.

The controller reports them for a cluster, and `drawbridge check` for the objects that it reads.
"""

from collections.abc import Iterable
from typing import Final

from drawbridge.agreement.operation_codes import DUAL_NODES
from drawbridge.dra.counted import count_noun, list_some
from drawbridge.facts.served_names import DualNode
from drawbridge.finding import Finding

_MAX_NAMED_NODES: Final = 10


def describe_dual_nodes(dual_nodes: Iterable[DualNode]) -> Finding | None:
    """Return a finding that names the first nodes whose plugins serve, and counts idle devices."""
    sorted_nodes = sorted(each for each in dual_nodes if not each.stopped)
    if not sorted_nodes:
        return None
    nodes = [each.node for each in sorted_nodes]
    names = sorted({name for each in sorted_nodes for name in each.names})
    devices = sum(each.devices for each in sorted_nodes)
    verb = "advertises" if len(nodes) == 1 else "advertise"
    return DUAL_NODES.at(
        "status.allocatable",
        f"{list_some(nodes, _MAX_NAMED_NODES, 'node')} {verb} {', '.join(names)} although "
        f"ResourceSlices have the same devices; idle DRA devices: {devices} "
        f"on {count_noun(len(nodes), 'node')}",
    )
