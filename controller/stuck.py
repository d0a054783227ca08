"""Finds what is stuck while this replica leads, for the metrics, and how many devices are free.

Caches of claims and pods are of two moments. So only what two runs find is told.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from controller.device_users import NO_DEVICES, WatchedClaim
from controller.protocols import ObjectCache, WatchedObject
from controller.readings import Readings
from controller.watched_objects import PartialObject, WatchedNode
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.slices import Slice
from drawbridge.finding import Finding
from drawbridge.report.stuck.find import find_stuck
from drawbridge.report.stuck.found import Stuck
from drawbridge.report.stuck.free import count_free
from drawbridge.report.stuck.objects import (
    READY,
    HangingMetadata,
    HangingNamespace,
    HangingNode,
    HangingObjects,
    HangingPod,
    find_condition,
    seconds_of,
    select_text,
)

NAME: Final = "stuck"
_NODE: Final = msgspec.json.Decoder(HangingNode, strict=False)
_NAMESPACE: Final = msgspec.json.Decoder(HangingNamespace, strict=False)


@dataclass(frozen=True)
class StuckSources:
    """The caches that are searched. Nodes and namespaces keep their JSON."""

    claims: ObjectCache[WatchedClaim]
    pods: ObjectCache[HangingPod]
    nodes: ObjectCache[WatchedNode]
    slices: ObjectCache[Slice | tuple[Finding, ...]]
    classes: ObjectCache[DeviceClass | tuple[Finding, ...]]
    namespaces: ObjectCache[PartialObject]


class StuckReconciler:
    """Searches at intervals; `stuck` has what two searches found, with the time in Unix seconds.

    The time is that in the object, or when this term first saw it. `free` has the free devices of
    each driver.
    """

    name = NAME

    def __init__(
        self,
        sources: StuckSources,
        *,
        now: Callable[[], float],
        is_fresh: Callable[[], bool],
    ) -> None:
        self._sources = sources
        self._now = now
        self._is_fresh = is_fresh
        self._since: dict[tuple[str, str], float] = {}
        self._nodes = Readings(_read_node)
        self.stuck: tuple[tuple[Stuck, float], ...] = ()
        self.free: Mapping[str, int] = {}

    async def reconcile(self) -> None:
        """Search once, if all claims and pods are known as they are now."""
        if not self._is_fresh():
            return
        now = self._now()
        stuck, self.free = await asyncio.to_thread(self._search, _copy(self._sources), now)
        before = self._since
        self._since = {(e.code, e.object): before.get((e.code, e.object), now) for e in stuck}
        self.stuck = tuple(
            (each, seconds_of(each.since) or before[each.code, each.object])
            for each in stuck
            if (each.code, each.object) in before
        )

    def _search(self, copy: "_Snapshot", now: float) -> tuple[tuple[Stuck, ...], Mapping[str, int]]:
        """Return what is stuck, and the free devices by driver."""
        slices = (each.value for each in copy.slices)
        objects = HangingObjects(
            now=now,
            claims=tuple(each.value.hanging for each in copy.claims),
            pods=tuple(each.value for each in copy.pods),
            slices=tuple(each for each in slices if isinstance(each, Slice)),
            nodes=tuple(self._nodes.read(copy.nodes)),
            namespaces=tuple(_NAMESPACE.decode(each.raw) for each in copy.leaving),
            classes={
                each.name: select_text(each.value) if isinstance(each.value, DeviceClass) else ""
                for each in copy.classes
            },
        )
        return find_stuck(objects), count_free(objects.slices, objects.claims)


def _read_node(raw: bytes) -> HangingNode:
    """Return what is kept of a node: whether it is ready, and the resources of which it has 0."""
    node = _NODE.decode(raw)
    ready = find_condition(node.status.conditions, READY)
    amounts = (node.status.allocatable or {}).items()
    gone = {name: amount for name, amount in amounts if f"{amount}" == "0"}
    status = replace(node.status, conditions=(ready,) if ready else None, allocatable=gone)
    return HangingNode(HangingMetadata(name=node.metadata.name), status)


class _Snapshot(NamedTuple):
    """What the caches have at one moment; a thread may read it."""

    claims: tuple[WatchedObject[WatchedClaim], ...]
    pods: tuple[WatchedObject[HangingPod], ...]
    nodes: tuple[WatchedObject[WatchedNode], ...]
    slices: tuple[WatchedObject[Slice | tuple[Finding, ...]], ...]
    classes: tuple[WatchedObject[DeviceClass | tuple[Finding, ...]], ...]
    leaving: tuple[WatchedObject[PartialObject], ...]


def _copy(sources: StuckSources) -> _Snapshot:
    return _Snapshot(
        tuple(sources.claims.all()),
        tuple(each for each in sources.pods.all() if each.value is not NO_DEVICES),
        tuple(sources.nodes.all()),
        tuple(sources.slices.all()),
        tuple(sources.classes.all()),
        tuple(e for e in sources.namespaces.all() if e.value.metadata.deletion_timestamp),
    )
