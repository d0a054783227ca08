"""Computes the use of a pool from what claims hold, and views that differ from the current one."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from drawbridge.dra.capacity import Amounts
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.layered_map import LayeredMap
from drawbridge.dra.quantity import Quantity
from drawbridge.ledger.holdings import Hold, merge_marked_draws
from drawbridge.solver.world import UNUSED, PoolUse, View, add_amounts


def updated_use(
    before: PoolUse, devices: Collection[str], held: Mapping[str, Mapping[str, Sequence[Hold]]]
) -> PoolUse:
    """Return the use of a pool after changes of some devices; `before` if it is equal.

    `held` has the holds by device and by UID of the claim; other devices are free.
    """
    dedicated = set(before.dedicated).difference(devices)
    shares = {name: each for name, each in before.shares.items() if name not in devices}
    snapshots = {name: each for name, each in before.snapshots.items() if name not in devices}
    for name in sorted(held.keys() & set(devices)):
        holds = [hold for uid in sorted(held[name]) for hold in held[name][uid]]
        if not holds:
            continue
        if not all(hold.shared for hold in holds):
            dedicated.add(name)
        if any(hold.shared for hold in holds):
            shares[name] = _sum_amounts(hold.consumed for hold in holds)
        if marked_draw := merge_marked_draws(holds):
            snapshots[name] = marked_draw
    after = PoolUse(frozenset(dedicated), shares, snapshots)
    return before if before == after else after


def with_devices_held(use: PoolUse, devices: Collection[str]) -> PoolUse:
    """Return the use of a pool as if further devices were allocated as a whole."""
    return PoolUse(use.dedicated.union(devices), use.shares, use.snapshots)


def replace_uses(view: View, changes: Mapping[PoolID, PoolUse]) -> View:
    """Return a view with the use of some pools replaced, at a cost that depends on these only."""
    pools = view.pools if isinstance(view.pools, LayeredMap) else LayeredMap(UNUSED, view.pools)
    return View(pools.updated(changes)) if changes else view


def changed_pools(before: View, after: View) -> Collection[PoolID]:
    """Return the pools with another use, at a cost that depends on the changes only."""
    if isinstance(before.pools, LayeredMap) and isinstance(after.pools, LayeredMap):
        return after.pools.changed_keys(before.pools)
    pools = before.pools.keys() | after.pools.keys()
    return [pool for pool in pools if before.use(pool) is not after.use(pool)]


def _sum_amounts(amounts: Iterable[Amounts]) -> Amounts:
    held: dict[str, Quantity] = {}
    for amount in amounts:
        add_amounts(held, amount)
    return held
