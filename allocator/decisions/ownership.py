"""Which pools the allocator uses, from the configuration and the facts."""

from collections.abc import Collection

from allocator.state.cluster_state import FindNode, OwnsPool
from drawbridge.agreement.owned_pools import (
    PoolOwner,
    decide_pool,
    drivers_by_resource,
    find_local_pool,
    find_withheld_drivers,
    owned_pools,
)
from drawbridge.config.model import Configuration
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.slices import Slice
from drawbridge.facts.families import known_families
from drawbridge.facts.model import Facts


def make_pool_filter(configuration: Configuration, facts: Facts) -> OwnsPool:
    """Return the function that decides whether the allocator uses a pool.

    It uses the owned pools, except those on a node without the taint that it must have, or whose
    device plugin has the same devices.
    """
    owned, known = owned_pools(configuration), known_families(configuration)
    extended = drivers_by_resource(facts.classes)

    def owns_pool(pool: PoolID, slices: Collection[Slice], find_node: FindNode) -> bool:
        local = find_local_pool(pool, slices)
        node = find_node(local.node) if local else None
        if node is None:
            return False
        owner = decide_pool(owned, pool, slices, find_node)
        withheld = find_withheld_drivers(node, known, extended)
        return owner is PoolOwner.DRAWBRIDGE and pool.driver not in withheld

    return owns_pool
