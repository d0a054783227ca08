"""Finds out when no allocator of ours writes any more to what other schedulers are to get.

Three things happen, in this order:

1. The Lease of the scheduler requires that an allocator knows of the change
   (drawbridge.agreement.required_versions). It still does when the other two have happened.
2. The duration of the Lease passes. From then on, each allocator that writes knows it: none marks a
   claim for these devices, and none allocates what it has marked before.
3. No claim has a mark for them without an allocation. An allocation that is still under way names
   the version of such a mark, so the API server rejects it once the mark is gone.

All of it begins anew with each change that can have made a node ours in between: a reconciler sees
only what there is at one moment. So it does with each term, whose objects are new: another process
has led since.

A tenant can write a mark, and a process that wrote one can have ended. An API server ends a request
after a minute, so a mark counts for no longer.
"""

import math
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from controller.protocols import ObjectCache, ObjectStore, WatchedObject
from controller.watched_objects import WatchedNode
from drawbridge.agreement.required_versions import RequiredVersions, read_required
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.slices import Slice
from drawbridge.finding import Finding
from drawbridge.names import ALLOCATION_ANNOTATION, SCHEDULER_LEASE

# The duration of the Lease by default; one that was released names a shorter one.
LEASE_SECONDS: Final = 15.0
LATEST_SECONDS: Final = 60.0
_NO_POOLS: Final[frozenset[PoolID]] = frozenset()
K = TypeVar("K", bound=Hashable)


class _Device(msgspec.Struct):
    driver: str = ""
    pool: str = ""


class _Mark(msgspec.Struct):
    devices: tuple[_Device, ...] = ()


class _Metadata(msgspec.Struct):
    annotations: dict[str, Any] | None = None


class _Status(msgspec.Struct):
    allocation: dict[str, Any] | None = None


class _Claim(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: _Status | None = None


def read_pending_pools(raw: bytes) -> frozenset[PoolID]:
    """Return the pools that the mark of a claim without an allocation names."""
    claim = msgspec.json.decode(raw, type=_Claim)
    text = (claim.metadata.annotations or {}).get(ALLOCATION_ANNOTATION)
    if text is None or (claim.status is not None and claim.status.allocation is not None):
        return _NO_POOLS
    mark = msgspec.json.decode(f"{text}", type=_Mark)
    return frozenset(PoolID(each.driver, each.pool) for each in mark.devices)


class GivingBack(Generic[K]):
    """What is given back, nodes or pools, and when the writes of our allocators to it have ended.

    `versions` is what this process knows, and `list_pending` what `read_pending_pools` tells of all
    claims. `find_touched` tells which of the keys have devices of these pools. `elapsed` is a clock
    that is never set.
    """

    def __init__(
        self,
        leases: ObjectStore,
        list_pending: Callable[[], AsyncIterator[frozenset[PoolID]]],
        *,
        versions: Callable[[], RequiredVersions],
        find_touched: Callable[[frozenset[PoolID], frozenset[K]], Collection[K]],
        elapsed: Callable[[], float],
    ) -> None:
        self._leases, self._list_pending = leases, list_pending
        self._versions, self._find_touched = versions, find_touched
        self._elapsed = elapsed
        self._known_at: dict[K, float] = {}  # when each allocator that writes knows it
        self._announced = RequiredVersions()

    def restart(self, keys: Iterable[K] | None = None) -> None:
        """Begin anew with some keys, or with all: they can have been ours in between."""
        for key in tuple(self._known_at if keys is None else keys):
            self._known_at.pop(key, None)

    def has_ended(self, key: K) -> bool:
        """Whether nothing has changed since `find_ended` returned a key."""
        return self._known_at.get(key, math.inf) <= self._elapsed()

    async def find_ended(self, leaving: Collection[K]) -> frozenset[K]:
        """Return which of these can go to others now; the others are asked about again.

        What is not named any more starts anew when it is named again.
        """
        self._known_at = {key: at for key, at in self._known_at.items() if key in leaving}
        if any(at <= self._elapsed() for at in self._known_at.values()):
            await self._look_again()
        new = [key for key in leaving if key not in self._known_at]
        if new:
            self._known_at |= dict.fromkeys(new, math.inf)
            try:
                seconds = await self._announce()
            except BaseException:
                self.restart(new)
                raise
            known_at = self._elapsed() + seconds
            self._known_at |= {key: known_at for key in new if key in self._known_at}
        now = self._elapsed()
        due = {key: now - at for key, at in self._known_at.items() if at <= now}
        recent = frozenset(key for key, seconds in due.items() if seconds < LATEST_SECONDS)
        if not recent:
            return frozenset(due)
        pending = _NO_POOLS
        async for pools in self._list_pending():
            pending |= pools
        ended = frozenset(due) - frozenset(self._find_touched(pending, recent))
        return frozenset(filter(self.has_ended, ended))

    async def _look_again(self) -> None:
        """Begin anew with all if the Lease does not require any more what was announced."""
        required = _read(await self._leases.read(SCHEDULER_LEASE))
        if required.with_newer(self._announced) != required:
            self.restart()

    async def _announce(self) -> float:
        """Require what this process knows; return after how many seconds every writer knows it.

        Where no scheduler has created the Lease, or somebody has deleted it, the next scheduler
        finds it with what is required.
        """
        lease = await self._leases.read(SCHEDULER_LEASE)
        before = _read(lease)
        # No process takes what it has read before for what is announced now.
        required = before.with_newer(self._announced).requiring(self._versions())
        metadata: dict[str, Any] = {"annotations": required.annotation()}
        if lease is None:
            head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            metadata["name"] = SCHEDULER_LEASE
            await self._leases.create({**head, "metadata": metadata, "spec": {}})
        elif required != before:
            metadata["resourceVersion"] = lease["metadata"]["resourceVersion"]
            await self._leases.merge(SCHEDULER_LEASE, {"metadata": metadata})
        self._announced = required
        duration = ((lease or {}).get("spec") or {}).get("leaseDurationSeconds") or 0
        return max(float(duration), LEASE_SECONDS)


def _read(lease: Mapping[str, Any] | None) -> RequiredVersions:
    return read_required(((lease or {}).get("metadata") or {}).get("annotations"))


def find_nodes(
    pools: frozenset[PoolID],
    names: frozenset[str],
    nodes: ObjectCache[Any],
    slices: ObjectCache[Slice | tuple[Finding, ...]],
) -> Collection[str]:
    """Return which nodes of these names have pools; all if nothing tells where a pool is."""
    places = {pool: {pool.name} if nodes.get(pool.name) else set() for pool in pools}
    for cached in slices.all():
        value = cached.value
        if isinstance(value, Slice) and (of_pool := PoolID(value.driver, value.pool)) in places:
            places[of_pool].add(value.node_name or "")
    return names if not all(places.values()) else names & set().union(*places.values())


def restart_relabelled(
    nodes: GivingBack[str],
    before: WatchedObject[WatchedNode] | None,
    after: WatchedObject[WatchedNode] | None,
) -> None:
    """Begin anew with a node when its labels change.

    Pools need none of it: what is required of an allocator says itself that they leave.
    """
    node = after or before
    if node is not None and not (before and after and _labels(before) == _labels(after)):
        nodes.restart([node.name])


def _labels(node: WatchedObject[WatchedNode]) -> object:
    return node.value.metadata.labels
