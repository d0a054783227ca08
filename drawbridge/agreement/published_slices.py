"""The slices of the cluster by pool, without those of nodes that publish too much."""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from drawbridge.agreement.slice_limits import SliceGroup, find_slice_groups
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.slices import Slice
from drawbridge.index import Index

_NO_SLICES: Mapping[str, Slice] = {}


class ChangedPools(NamedTuple):
    """The pools that have changed, and whether they have new slices; what none has any more."""

    pools: Mapping[PoolID, bool]
    removed: Collection[Slice]


class PublishedSlices:
    """What counts of the slices, by pool.

    A change costs what the limits allow, and nothing while a node is beyond them.
    """

    def __init__(self) -> None:
        self._pools: dict[PoolID, dict[str, Slice]] = {}
        self._naming: Index[str, PoolID] = Index()
        self._by_group: dict[SliceGroup, dict[str, Slice]] = {}

    @property
    def pools(self) -> Collection[PoolID]:
        """The pools that have slices."""
        return self._pools.keys()

    def of_pool(self, pool: PoolID) -> Mapping[str, Slice]:
        """Return the slices of a pool by name."""
        return self._pools.get(pool, _NO_SLICES)

    def naming(self, node: str) -> Collection[PoolID]:
        """Return the pools with slices for a node, or with its name."""
        return self._naming.get(node)

    def apply(self, before: Slice | None, after: Slice | None) -> ChangedPools:
        """Apply the change of one slice; others can count since, or no more."""
        gone: list[Slice] = []
        concerned: dict[str, Slice] = {}
        if before is not None and (after is None or _place(before) != _place(after)):
            gone.append(before)
            for group in find_slice_groups(before):
                concerned |= self._take_back(group, before)
        if after is not None:
            for group in find_slice_groups(after):
                concerned |= self._publish(group, after)
        put = [each for each in concerned.values() if self._counts(each)]
        gone += [each for each in concerned.values() if not self._counts(each)]
        gone = self._remove(gone)
        for resource_slice in put:
            pool = PoolID(resource_slice.driver, resource_slice.pool)
            self._pools.setdefault(pool, {})[resource_slice.name] = resource_slice
            self._naming.move(pool, (), filter(None, {resource_slice.node_name, pool.name}))
        pools = dict.fromkeys((PoolID(each.driver, each.pool) for each in gone), False)
        pools |= dict.fromkeys((PoolID(each.driver, each.pool) for each in put), True)
        return ChangedPools(pools, gone)

    def _publish(self, group: SliceGroup, after: Slice) -> Mapping[str, Slice]:
        """Add or replace a slice; return those that may count no more, and itself."""
        published = self._by_group.setdefault(group, {})
        is_new = after.name not in published
        published[after.name] = after
        is_crowded = is_new and len(published) == group.limit + 1
        return published if is_crowded else {after.name: after}

    def _take_back(self, group: SliceGroup, before: Slice) -> Mapping[str, Slice]:
        """Remove a slice; return those that may count since."""
        published = self._by_group.get(group, {})
        was_crowded = len(published) > group.limit
        published.pop(before.name, None)
        if not published:
            self._by_group.pop(group, None)
        if was_crowded and len(published) > group.limit:
            return dict(islice(published.items(), 1))
        return published if was_crowded else {}

    def _counts(self, resource_slice: Slice) -> bool:
        """Whether a slice counts. One without a node always does, so that its pool is not local."""
        for group in find_slice_groups(resource_slice):
            published = self._by_group[group]
            is_first = next(iter(published)) == resource_slice.name
            if len(published) > group.limit and (group.node or not is_first):
                return False
        return True

    def _remove(self, slices: Iterable[Slice]) -> list[Slice]:
        """Remove slices from their pools; return those that were there."""
        gone: dict[PoolID, list[Slice]] = {}
        for resource_slice in slices:
            pool = PoolID(resource_slice.driver, resource_slice.pool)
            if self._pools.get(pool, {}).pop(resource_slice.name, None) is not None:
                gone.setdefault(pool, []).append(resource_slice)
        for pool, members in gone.items():
            left = self._pools[pool]
            named = {each.node_name for each in left.values()} | ({pool.name} if left else set())
            lost = {each.node_name or "" for each in members} | {pool.name}
            self._naming.move(pool, lost - named, ())
            if not left:
                del self._pools[pool]
        return [each for members in gone.values() for each in members]


def _place(of_pool: Slice) -> tuple[str, str, str, str | None]:
    return of_pool.name, of_pool.driver, of_pool.pool, of_pool.node_name
