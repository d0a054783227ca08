"""Decides which of the owned pools the allocator uses now."""

from collections.abc import Callable

from allocator.state.cluster_state import FindHeld, FindNode, OwnsDriver, OwnsPool
from drawbridge.agreement.owned_pools import (
    OWNED,
    LocalPool,
    PoolOwner,
    decide_node,
    decide_pool,
)
from drawbridge.config.model import Configuration
from drawbridge.config.placement import owned_pools
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.facts.families import known_families
from drawbridge.facts.model import Facts
from drawbridge.facts.withheld import drivers_by_resource, find_withheld_drivers


def make_pool_filter(
    configuration: Configuration,
    facts: Facts,
    is_settled: Callable[[Node], bool],
    is_guarded: Callable[[PoolID], bool],
    unfenced: dict[PoolID, str],
) -> OwnsPool:
    """Return the function that decides whether the allocator uses a pool.

    It uses the owned pools, except those whose fence is missing or has not settled, on the node and
    around the devices, and those whose device plugin has the same devices, or gave them to pods
    that run. It keeps in `unfenced` the nodes of pools that only their fence keeps from use. All
    pools have to be decided about once.
    """
    unfenced.clear()
    owned, families = owned_pools(configuration), known_families(configuration)
    extended = drivers_by_resource(facts.classes)

    def owns_pool(
        pool: PoolID, local: LocalPool | None, find_node: FindNode, find_held: FindHeld
    ) -> bool:
        node = find_node(local.node) if local else None
        unfenced.pop(pool, None)
        if node is None:
            return False
        owner = decide_pool(owned, pool, local, find_node)
        by_node = owner is PoolOwner.DRAWBRIDGE and is_settled(node)
        is_fenced = by_node or (owner in OWNED and is_guarded(pool))
        held = find_held(node.name)
        if pool.driver in find_withheld_drivers(node, families, extended, held):
            return False
        if owner in OWNED and not is_fenced:
            unfenced[pool] = node.name
        return is_fenced

    return owns_pool


def make_driver_filter(configuration: Configuration) -> OwnsDriver:
    """Return the function that decides whether pools of a driver on a node are owned."""
    owned = owned_pools(configuration)
    return lambda driver, node: driver in decide_node(owned, node.labels).drivers
