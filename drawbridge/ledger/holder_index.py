"""Indexes what claims hold by device, and keeps the view of it."""

from collections.abc import Collection, Iterable

from drawbridge.dra.inventory import PoolID
from drawbridge.dra.layered_map import LayeredMap
from drawbridge.ledger.holdings import DeviceID, Hold
from drawbridge.ledger.pool_use import DeviceSums, replace_uses, updated_use
from drawbridge.solver.world import UNUSED, View


class HolderIndex:
    """The holds of claims, by UID, and of what is kept, by key.

    `by_pool` has them by pool, device and UID or key.
    """

    def __init__(self) -> None:
        self.by_pool: dict[PoolID, dict[str, dict[str, list[Hold]]]] = {}
        self._sums: dict[PoolID, dict[str, DeviceSums]] = {}
        self._share_users: dict[tuple[DeviceID, str], dict[str, None]] = {}
        self._changed_devices: dict[PoolID, set[str]] = {}
        self._view = View(LayeredMap(UNUSED))

    def add(self, uid: str, held: Iterable[Hold]) -> None:
        """Add holds of a claim."""
        for hold in held:
            devices = self.by_pool.setdefault(hold.pool, {})
            devices.setdefault(hold.device, {}).setdefault(uid, []).append(hold)
            sums = self._sums.setdefault(hold.pool, {})
            sums.setdefault(hold.device, DeviceSums()).add(hold)
            if hold.shared:
                self._share_users.setdefault(_share_of(hold), {})[uid] = None
            self._changed_devices.setdefault(hold.pool, set()).add(hold.device)

    def remove(self, uid: str, held: Iterable[Hold]) -> None:
        """Remove holds of a claim that were added."""
        for hold in held:
            devices, sums = self.by_pool[hold.pool], self._sums[hold.pool]
            claims = devices[hold.device]
            claims[uid].remove(hold)
            sums[hold.device].remove(hold)
            if not claims[uid]:
                del claims[uid]
            if not claims:
                del devices[hold.device], sums[hold.device]
            if not devices:
                del self.by_pool[hold.pool], self._sums[hold.pool]
            if hold.shared:
                users = self._share_users.get(share := _share_of(hold), {})
                users.pop(uid, None)
                if not users:
                    self._share_users.pop(share, None)
            self._changed_devices.setdefault(hold.pool, set()).add(hold.device)

    def users_of_share(self, device: DeviceID, share: str) -> Collection[str]:
        """Return the UIDs of the claims that hold a share of a device."""
        return self._share_users.get((device, share), {}).keys()

    def view(self) -> View:
        """Return the current use of all pools; the same object until something changes.

        The cost depends on the devices of the pools that have changed since the last call, and not
        on how many claims hold them.
        """
        if not self._changed_devices:
            return self._view
        changes = {}
        for pool, devices in self._changed_devices.items():
            before, sums = self._view.use(pool), self._sums.get(pool)
            changed = {name: sums.get(name) or DeviceSums() for name in devices} if sums else {}
            after = updated_use(before, changed) if sums else UNUSED
            if after is not before:
                changes[pool] = after
        self._changed_devices = {}
        self._view = replace_uses(self._view, changes)
        return self._view

    def view_without(self, holds: Iterable[Hold], added: Iterable[Hold] = ()) -> View:
        """Return the current use as if these holds were removed, and then others added."""
        view, changed = self.view(), dict[PoolID, dict[str, DeviceSums]]()
        for hold in holds:
            self._copied_sums(hold, changed).remove(hold)
        for hold in added:
            self._copied_sums(hold, changed).add(hold)
        changes = {pool: updated_use(view.use(pool), sums) for pool, sums in changed.items()}
        return replace_uses(view, changes)

    def _copied_sums(self, hold: Hold, changed: dict[PoolID, dict[str, DeviceSums]]) -> DeviceSums:
        """Return the sums of a device in a view that changes on its own."""
        of_pool = changed.setdefault(hold.pool, {})
        if hold.device not in of_pool:
            current = self._sums.get(hold.pool, {}).get(hold.device)
            of_pool[hold.device] = current.copy() if current else DeviceSums()
        return of_pool[hold.device]


def _share_of(hold: Hold) -> tuple[DeviceID, str]:
    return hold.device_id, hold.share
