"""What the solver is given: the world as it is published, and a view of who holds what.

Both are frozen values. Where they come from, what is reserved in memory and what is written to the
API server, is not known here; `view_of` reads plain allocated claims for whoever keeps no ledger.
"""

from collections.abc import Iterable, Mapping

import msgspec

from dra.capacity import Amounts
from dra.claim import Claim
from dra.classes import DeviceClass
from dra.compatibility import Declaration, UnsetGroups
from dra.device import CounterUse
from dra.gates import DEFAULTS, Gates
from dra.inventory import Inventory, PoolID
from dra.quantity import Quantity
from solver.deviations import OURS, Deviations


class World(msgspec.Struct, frozen=True, eq=False):
    """What is published and configured; `gates` are those of the cluster's scheduler.

    `compatibility` are the declarations of the configuration: they win over what slices say.
    """

    inventory: Inventory
    classes: Mapping[str, DeviceClass] = {}
    compatibility: tuple[Declaration, ...] = ()
    unset_groups: UnsetGroups = UnsetGroups.ALONE
    deviations: Deviations = OURS

    @property
    def gates(self) -> Gates:
        """The gates, which are one and the same for everything."""
        return self.inventory.gates


class Use(msgspec.Struct, frozen=True, eq=False):
    """What is held of one pool, by device name; compared by identity.

    `dedicated` are the devices with a result that is no share. `shares` gives for every device
    with shares the capacity they consume together, which may be nothing. `snapshots` is what a
    device drew when it was allocated, where somebody noted it: where that and the slices differ,
    the stricter counts. Results with admin access are not held.
    """

    dedicated: frozenset[str] = frozenset()
    shares: Mapping[str, Amounts] = {}
    snapshots: Mapping[str, tuple[CounterUse, ...]] = {}

    def holds(self, device: str) -> bool:
        """Tell whether a device, or a share of it, is allocated."""
        return device in self.dedicated or device in self.shares


UNUSED = Use()


class View(msgspec.Struct, frozen=True):
    """Who holds what. A pool whose use did not change keeps its `Use` object from view to view."""

    pools: Mapping[PoolID, Use] = {}

    def use(self, pool: PoolID) -> Use:
        """Give what is held of a pool."""
        return self.pools.get(pool, UNUSED)


def view_of(claims: Iterable[Claim], gates: Gates = DEFAULTS) -> View:
    """Build the view of what claims hold in their status.

    Without the gate DRAConsumableCapacity the scheduler does not know shares: they count as whole
    devices.
    """
    dedicated: dict[PoolID, set[str]] = {}
    shares: dict[PoolID, dict[str, dict[str, Quantity]]] = {}
    for claim in claims:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation else ():
            pool = PoolID(result.driver, result.pool)
            if result.admin_access:
                continue
            if result.share_id is None or not gates.consumable_capacity:
                dedicated.setdefault(pool, set()).add(result.device)
            else:
                held = shares.setdefault(pool, {}).setdefault(result.device, {})
                add(held, result.consumed_capacity)
    pools = dedicated.keys() | shares.keys()
    return View(
        {
            pool: Use(frozenset(dedicated.get(pool, ())), shares.get(pool, {}))
            for pool in sorted(pools)
        }
    )


def add(held: dict[str, Quantity], consumed: Amounts) -> None:
    """Add amounts to those held."""
    for name, amount in consumed.items():
        known = held.get(name)
        held[name] = amount if known is None else known + amount
