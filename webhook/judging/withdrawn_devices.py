"""Remembers the devices that drivers withdrew or changed a short time ago.

A driver that restarts, or publishes a pool again, withdraws devices and publishes them again soon.
Until then, requests for them must not be refused.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.device import Device
from drawbridge.dra.slices import Slice
from drawbridge.facts.recent_pools import MAX_ABSENCE_SECONDS

MAX_SLICES: Final = 256


class RecentlyWithdrawn(NamedTuple):
    """The slices as they were, and why there may be more of them."""

    slices: tuple[Slice, ...] = ()
    doubts: tuple[str, ...] = ()


class _Entry(NamedTuple):
    """A slice as it was; when it was withdrawn first, and when it was last known to be absent."""

    first: float
    last: float
    before: Slice


class WithdrawnDevices:
    """The withdrawn slices of the last minutes; beyond MAX_SLICES only that there were more.

    A slice whose driver publishes nothing else for the node is remembered for longer.
    """

    def __init__(self, seconds: float, now: Callable[[], float]) -> None:
        self._seconds = seconds
        self._now = now
        self._slices: BoundedCache[tuple[str, str], _Entry] = BoundedCache(MAX_SLICES)
        self._incomplete_until = float("-inf")
        self._recent = RecentlyWithdrawn()

    def observe_change(self, before: Slice, after: Slice | None) -> None:
        """Compare a slice before and after a change, or before its deletion."""
        if after is None or not _keeps_devices(before, after):
            self._record(before)

    def observe_new_slice(self, new: Slice, others: Iterable[Slice]) -> None:
        """Record the other slices of the pool of a new slice if its generation replaces them."""
        for other in others:
            if other.generation != new.generation and new.node_name in {None, other.node_name}:
                self._record(other)

    def recent(self, is_absent: Callable[[Slice], bool] = lambda _: False) -> RecentlyWithdrawn:
        """Return what was withdrawn within the last minutes: the same object until it changes.

        `is_absent` says whether the node of a slice exists and its driver publishes nothing there.
        """
        now = self._now()
        expired = itertools.takewhile(
            lambda item: now - item[1].last >= self._seconds, self._slices.items()
        )
        for key, entry in tuple(expired):
            self._slices.pop(key)
            if now - entry.first < MAX_ABSENCE_SECONDS and is_absent(entry.before):
                self._slices.put(key, entry._replace(last=now))
        doubts: tuple[str, ...] = ()
        if now < self._incomplete_until:
            doubts = (f"more than {MAX_SLICES} slices were withdrawn a short time ago",)
        recent = RecentlyWithdrawn(tuple(each.before for _, each in self._slices.items()), doubts)
        if recent != self._recent:
            self._recent = recent
        return self._recent

    def _record(self, withdrawn: Slice) -> None:
        key = (withdrawn.driver, withdrawn.name)
        now = self._now()
        # What was there first is kept: a driver can publish a pool in several steps.
        entry = self._slices.pop(key)
        before = withdrawn if entry is None else entry.before
        if len(self._slices) == MAX_SLICES:
            self._incomplete_until = now + self._seconds
        self._slices.put(key, _Entry(now, now, before))


def _keeps_devices(before: Slice, after: Slice) -> bool:
    """Whether every device is published for the same nodes as before, whatever its taints."""
    now = _untainted(after)
    return _without_devices(before) == _without_devices(after) and all(
        now.get(name) == device for name, device in _untainted(before).items()
    )


def _without_devices(slice_: Slice) -> Slice:
    """Return what all devices of a slice share. A pool of another generation can be incomplete."""
    return replace(slice_, devices=(), annotations={}, generation=0, slice_count=0)


def _untainted(slice_: Slice) -> Mapping[str, Device]:
    return {device.name: replace(device, taints=()) for device in slice_.devices}
