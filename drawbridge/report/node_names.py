"""Names groups of alike nodes as administrators do: by a label, or by what their names share."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from drawbridge.dra.nodes import Node

# The labels by which people know their nodes, the most telling first.
_POOLS: Final = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "node-pool",
    "nodepool",
    "pool",
)
_PRODUCTS: Final = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "node.kubernetes.io/instance-type",
)
GROUP_LABELS: Final = (*_POOLS, *_PRODUCTS)


def name_nodes(nodes: Sequence[Node]) -> str:
    """Return what a person calls these nodes: their pool, their product, or their names."""
    labels = nodes[0].labels
    named = next((labels[each] for each in GROUP_LABELS if labels.get(each)), "")
    names = sorted(each.name for each in nodes)
    if named:
        return named
    stem = _common_start(names[0], names[-1])
    return names[0] if len(names) == 1 else f"{stem}-*" if stem else f"{names[0]} and others"


def _common_start(first: str, last: str) -> str:
    """Return what the first and the last of sorted names begin with."""
    pairs = zip(first, last, strict=False)
    return first[: len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])].rstrip("-.")
