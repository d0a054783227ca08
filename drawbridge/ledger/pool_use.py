"""Computes the use of a pool from what claims hold, and views that differ from the current one."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping

from drawbridge.dra.capacity import Amounts
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.layered_map import LayeredMap
from drawbridge.dra.quantity import Quantity
from drawbridge.ledger.holdings import Draw, Hold, content_of, merge_draws
from drawbridge.solver.world import UNUSED, PoolUse, View, add_amounts


class DeviceSums:
    """What the holds of one device have together, which follows each hold that comes or goes."""

    __slots__ = ("_amounts", "_draws", "_marked", "_merged", "_named", "_shares", "_wholes")

    def __init__(self, holds: Iterable[Hold] = ()) -> None:
        self._wholes = self._shares = 0
        self._amounts: dict[str, Quantity] = {}
        # How many holds name an amount: the last one takes the name with it.
        self._named = Counter[str]()
        # The counters in marks by their content, and how many marks have it.
        self._draws: dict[Hashable, Draw] = {}
        self._marked = Counter[Hashable]()
        self._merged: Draw | None = ()
        for hold in holds:
            self.add(hold)

    def copy(self) -> "DeviceSums":
        """Return equal sums that change on their own."""
        other = DeviceSums()
        other._wholes, other._shares = self._wholes, self._shares  # its own class
        other._amounts, other._named = dict(self._amounts), self._named.copy()
        other._draws, other._marked = dict(self._draws), self._marked.copy()
        other._merged = self._merged
        return other

    def add(self, hold: Hold) -> None:
        """Add one hold."""
        self._shares += hold.shared
        self._wholes += not hold.shared
        add_amounts(self._amounts, hold.consumed)
        self._named.update(hold.consumed.keys())
        if hold.marked_draw:
            content = content_of(hold.marked_draw)
            self._marked[content] += 1
            if content not in self._draws:
                self._draws[content], self._merged = hold.marked_draw, None

    def remove(self, hold: Hold) -> None:
        """Take away one hold that was added."""
        self._shares -= hold.shared
        self._wholes -= not hold.shared
        for name, amount in hold.consumed.items():
            self._named[name] -= 1
            if self._named[name]:
                self._amounts[name] -= amount
            else:
                del self._named[name], self._amounts[name]
        if hold.marked_draw:
            content = content_of(hold.marked_draw)
            self._marked[content] -= 1
            if not self._marked[content]:
                del self._marked[content], self._draws[content]
                self._merged = None

    @property
    def is_dedicated(self) -> bool:
        """Whether the device is held as a whole."""
        return self._wholes > 0

    @property
    def consumed(self) -> Amounts | None:
        """What the shares consume together; None without shares."""
        return dict(self._amounts) if self._shares else None

    @property
    def marked_draw(self) -> Draw:
        """The counters that the marks record."""
        if self._merged is None:
            self._merged = merge_draws(self._draws.values())
        return self._merged


def updated_use(before: PoolUse, devices: Mapping[str, DeviceSums]) -> PoolUse:
    """Return the use of a pool after changes of some devices; `before` if it is equal."""
    dedicated = set(before.dedicated).difference(devices)
    shares = {name: each for name, each in before.shares.items() if name not in devices}
    snapshots = {name: each for name, each in before.snapshots.items() if name not in devices}
    for name in sorted(devices):
        sums = devices[name]
        if sums.is_dedicated:
            dedicated.add(name)
        if (consumed := sums.consumed) is not None:
            shares[name] = consumed
        if marked_draw := sums.marked_draw:
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
