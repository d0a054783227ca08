"""Input of the solver: the published devices (`World`) and their use by claims (`View`).

Both are immutable. The ledger produces views; `view_of_claims` produces one from allocated claims
without a ledger.
"""

from collections.abc import Iterable, Mapping

import msgspec

from drawbridge.dra.capacity import Amounts
from drawbridge.dra.claim import Claim
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.compatibility import Declaration, UnsetGroups
from drawbridge.dra.device import CounterUse
from drawbridge.dra.gates import Gates
from drawbridge.dra.inventory import Inventory, PoolID
from drawbridge.dra.partitions import PartitionTable
from drawbridge.dra.quantity import Quantity
from drawbridge.solver.deviations import OURS, UPSTREAM, Deviations


class World(msgspec.Struct, frozen=True, eq=False):
    """What is published and configured.

    `compatibility` holds the declarations of the configuration; they override those of slices.
    With None, no declaration and no `compatibleOnlyWith` has an effect, as in the stock scheduler.
    `partitions` gives devices attributes that only the rules of claims read.

    With `errors_reject`, an error rejects the device on which it occurs, instead of the pod. No
    scheduler decides so. Proofs do: the scheduler does not reach the error while the device is in
    use, so the error does not exclude a solution for ever.
    """

    inventory: Inventory
    classes: Mapping[str, DeviceClass] = {}
    compatibility: tuple[Declaration, ...] | None = ()
    unset_groups: UnsetGroups = UnsetGroups.ALONE
    partitions: tuple[PartitionTable, ...] = ()
    deviations: Deviations = OURS
    errors_reject: bool = False

    @property
    def gates(self) -> Gates:
        """The feature gates of the cluster's scheduler."""
        return self.inventory.gates

    @property
    def settings(self) -> tuple[object, ...]:
        """What decisions depend on beside the objects of the cluster."""
        return (
            self.gates,
            self.compatibility,
            self.unset_groups,
            self.partitions,
            self.deviations,
            self.errors_reject,
        )

    def as_upstream(self) -> "World":
        """Return the world as the stock scheduler sees it, which reads only upstream's fields."""
        return msgspec.structs.replace(
            self,
            compatibility=None,
            unset_groups=UnsetGroups.ALONE,
            partitions=(),
            deviations=UPSTREAM,
        )


class PoolUse(msgspec.Struct, frozen=True, gc=False):
    """The allocated devices of one pool, by name.

    `dedicated` holds devices that are allocated as a whole. `shares` holds, for each device with
    shares, the total capacity they consume, which can be empty. `snapshots` holds the counters that
    a device consumed when it was allocated, if they were recorded; they count while the device is
    not published. Results with admin access do not use a device.
    """

    dedicated: frozenset[str] = frozenset()
    shares: Mapping[str, Amounts] = {}
    snapshots: Mapping[str, tuple[CounterUse, ...]] = {}

    def holds(self, device: str) -> bool:
        """Return whether a device, or a share of it, is allocated."""
        return device in self.dedicated or device in self.shares


UNUSED = PoolUse()


class View(msgspec.Struct, frozen=True):
    """The use of all pools. An unchanged pool keeps its `PoolUse` object from view to view."""

    pools: Mapping[PoolID, PoolUse] = {}

    def use(self, pool: PoolID) -> PoolUse:
        """Return the use of a pool."""
        return self.pools.get(pool, UNUSED)


def view_of_claims(claims: Iterable[Claim]) -> View:
    """Build a view from the allocations in the status of claims."""
    dedicated: dict[PoolID, set[str]] = {}
    shares: dict[PoolID, dict[str, dict[str, Quantity]]] = {}
    for claim in claims:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation else ():
            pool = PoolID(result.driver, result.pool)
            if result.admin_access:
                continue
            if result.share_id is None:
                dedicated.setdefault(pool, set()).add(result.device)
            else:
                held = shares.setdefault(pool, {}).setdefault(result.device, {})
                add_amounts(held, result.consumed_capacity)
    pools = dedicated.keys() | shares.keys()
    return View(
        {
            pool: PoolUse(frozenset(dedicated.get(pool, ())), shares.get(pool, {}))
            for pool in sorted(pools)
        }
    )


def add_amounts(held: dict[str, Quantity], consumed: Amounts) -> None:
    """Add consumed amounts to allocated amounts, in place."""
    for name, amount in consumed.items():
        total = held.get(name)
        held[name] = amount if total is None else total + amount
