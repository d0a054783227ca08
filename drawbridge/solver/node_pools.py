"""The states of nodes and their pools that decisions can tell apart."""

from drawbridge.dra.inventory import Pool
from drawbridge.dra.nodes import Node


class NodePools:
    """A node and its pools: one object for as long as they stay the same to decisions.

    What refers to it weakly ends with it, and keeps no object of an earlier state. `generation` is
    that of the pools of the cluster in which it was found.
    """

    __slots__ = ("__weakref__", "generation", "node", "pools")

    def __init__(self, node: Node, pools: tuple[Pool, ...], generation: int) -> None:
        self.renew(node, pools, generation)

    def renew(self, node: Node, pools: tuple[Pool, ...], generation: int) -> None:
        """Take equal objects, which are the current ones."""
        self.node, self.pools = node, pools
        self.generation = generation


def are_same(
    node: Node, pools: tuple[Pool, ...], other: Node, other_pools: tuple[Pool, ...]
) -> bool:
    """Return whether a node and its pools are the same as before."""
    if not (node is other or _alike(node, other)):
        return False
    return pools is other_pools or (
        len(pools) == len(other_pools)
        and all(_same(one, each) for one, each in zip(pools, other_pools, strict=True))
    )


def _alike(node: Node, other: Node) -> bool:
    """Return whether two states of a node are the same to devices."""
    return node.labels == other.labels and node.declared_features == other.declared_features


def _same(pool: Pool, other: Pool) -> bool:
    # Unchanged slices are the same objects, so this does not compare their contents.
    return pool is other or (
        pool.id == other.id
        and pool.incomplete == other.incomplete
        and pool.invalid == other.invalid
        and pool.slices == other.slices
        and pool.other_slices == other.other_slices
        and pool.counter_sets == other.counter_sets
    )
