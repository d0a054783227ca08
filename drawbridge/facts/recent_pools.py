"""Remembers the pools that drivers publish again, or withdrew a short time ago.

A pool is not complete between the slices of a new generation, and a driver that restarts withdraws
its pools. What facts say decides translations that stay, so that these pools count as they were.
After a restart, they say what the devices are, and no longer that a node offers them. Reads no
clock: the caller passes the time.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from drawbridge.dra.generations import current_parts, is_complete
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.slices import Slice

# So long, a driver that restarts or publishes a pool again can take.
RESTART_SECONDS: Final = 300.0
# A driver that publishes nothing for a node for longer is not only restarting.
MAX_ABSENCE_SECONDS: Final = 3600.0
# Withdrawn pools of one node, the last ones: a node may publish any number of them in turn.
MAX_WITHDRAWN: Final = 8


class _Part(NamedTuple):
    """What of a pool is of one node; empty if it is of others, or of several."""

    pool: PoolID
    node: str


class AwayDriver(NamedTuple):
    """A driver whose pools on a node count, and that publishes nothing there now.

    `restarts` if it may do so again soon.
    """

    driver: str
    node: str
    restarts: bool


class _Complete(NamedTuple):
    """The slices of a part as they were complete, and when they were seen so last."""

    slices: tuple[Slice, ...]
    seen: float


class RecentPools:
    """The last complete state of each pool that is published, or was a short time ago."""

    def __init__(self) -> None:
        self._complete: dict[_Part, _Complete] = {}
        self.away: tuple[AwayDriver, ...] = ()

    def complete(
        self, slices: Iterable[Slice], nodes: Collection[str], now: float
    ) -> tuple[Slice, ...]:
        """Return the slices, with pools as they were instead of those that are not complete."""
        pools: dict[PoolID, list[Slice]] = {}
        for resource_slice in slices:
            pool = PoolID(resource_slice.driver, resource_slice.pool)
            pools.setdefault(pool, []).append(resource_slice)
        counting: list[Slice] = []
        complete: dict[_Part, _Complete] = {}
        for pool, published in pools.items():
            parts = {_Part(pool, _node_of(part)): part for part in _current_parts(published)}
            kept = {key: self._as_complete(key, part, now) for key, part in parts.items()}
            complete |= {key: each for key, each in kept.items() if each is not None}
            counting += _replace(published, parts, complete)
        withdrawn = self._withdrawn(complete.keys(), nodes, now)
        self._complete = complete | withdrawn
        self.away = _find_away(pools, withdrawn, now)
        names = {each.name for each in counting}
        former = (each for before in withdrawn.values() for each in before.slices)
        return (*counting, *(each for each in former if each.name not in names))

    def _as_complete(self, key: _Part, part: tuple[Slice, ...], now: float) -> _Complete | None:
        """Return the part, or what it was; None if neither is complete."""
        if is_complete(part):
            return _Complete(part, now)
        before = self._complete.get(key)
        return before if before and now - before.seen < MAX_ABSENCE_SECONDS else None

    def _withdrawn(
        self, published: Collection[_Part], nodes: Collection[str], now: float
    ) -> dict[_Part, _Complete]:
        """Return what nobody publishes now, and may be published again."""
        active = {(key.pool.driver, key.node) for key in published}
        withdrawn: dict[_Part, _Complete] = {}
        of_node: dict[str, int] = {}
        absent = [each for each in self._complete.items() if each[0] not in published]
        for key, before in sorted(absent, key=lambda each: -each[1].seen):
            is_away = key.node and (key.pool.driver, key.node) not in active
            is_recent = now - before.seen < (MAX_ABSENCE_SECONDS if is_away else RESTART_SECONDS)
            count = of_node.get(key.node, 0)
            if is_recent and count < MAX_WITHDRAWN and (not key.node or key.node in nodes):
                of_node[key.node] = count + 1
                withdrawn[key] = before
        return withdrawn


def _find_away(
    pools: Mapping[PoolID, Iterable[Slice]], withdrawn: Mapping[_Part, _Complete], now: float
) -> tuple[AwayDriver, ...]:
    """Return the drivers that publish nothing for the node of a withdrawn pool."""
    publishing = {
        (pool.driver, each.node_name) for pool, slices in pools.items() for each in slices
    }
    seen: dict[tuple[str, str], float] = {}
    for key, before in withdrawn.items():
        at = key.pool.driver, key.node
        if key.node and at not in publishing:
            seen[at] = max(before.seen, seen.get(at, before.seen))
    return tuple(AwayDriver(*at, now - last < RESTART_SECONDS) for at, last in seen.items())


def _replace(
    published: Iterable[Slice],
    parts: Mapping[_Part, tuple[Slice, ...]],
    complete: Mapping[_Part, _Complete],
) -> Iterator[Slice]:
    """Return the slices of a pool, with the parts as they were that are not complete."""
    changed = [key for key, part in parts.items() if key in complete and not is_complete(part)]
    former = [each for key in changed for each in complete[key].slices]
    left_out = {each.name for key in changed for each in parts[key]}
    left_out.update(each.name for each in former)
    yield from (each for each in published if each.name not in left_out)
    yield from former


def _current_parts(published: list[Slice]) -> Iterator[tuple[Slice, ...]]:
    return current_parts(sorted(published, key=lambda each: each.name))


def _node_of(part: Iterable[Slice]) -> str:
    nodes = {each.node_name or "" for each in part}
    return nodes.pop() if len(nodes) == 1 else ""
