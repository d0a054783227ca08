"""Remembers the devices that drivers withdrew or changed a short time ago.

A driver that restarts, or publishes a pool anew, withdraws devices that come back. Requests for
them must not be refused meanwhile.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from dra.device import Device
from dra.slices import Slice

MAX_SLICES: Final = 256


class RecentlyWithdrawn(NamedTuple):
    """The slices as they were, and why there may be more of them."""

    slices: tuple[Slice, ...] = ()
    doubts: tuple[str, ...] = ()


class WithdrawnDevices:
    """The withdrawn slices of the last minutes; beyond MAX_SLICES only that there were more."""

    def __init__(self, seconds: float, now: Callable[[], float]) -> None:
        self._seconds = seconds
        self._now = now
        self._slices: OrderedDict[tuple[str, str], tuple[float, Slice]] = OrderedDict()
        self._incomplete_until = float("-inf")
        self._recent = RecentlyWithdrawn()

    def observe_change(self, before: Slice, after: Slice | None) -> None:
        """Compare a slice before and after a change, or before its deletion."""
        if after is None or not _keeps_devices(before, after):
            self._record(before)

    def observe_new_slice(self, new: Slice, others: Iterable[Slice]) -> None:
        """Record the other slices of the pool of a new slice if its generation replaces them."""
        for each in others:
            if each.generation != new.generation:
                self._record(each)

    def recent(self) -> RecentlyWithdrawn:
        """Return what was withdrawn within the last minutes: the same object until it changes."""
        now = self._now()
        while self._slices:
            key, (time, _) = next(iter(self._slices.items()))
            if now - time < self._seconds:
                break
            del self._slices[key]
        doubts: tuple[str, ...] = ()
        if now < self._incomplete_until:
            doubts = (f"more than {MAX_SLICES} slices were withdrawn a short time ago",)
        found = RecentlyWithdrawn(tuple(each for _, each in self._slices.values()), doubts)
        if found != self._recent:
            self._recent = found
        return self._recent

    def _record(self, withdrawn: Slice) -> None:
        key = (withdrawn.driver, withdrawn.name)
        # What was there first is kept: a driver can publish a pool in several steps.
        first = self._slices.pop(key, (0.0, withdrawn))[1]
        self._slices[key] = (self._now(), first)
        if len(self._slices) > MAX_SLICES:
            self._slices.popitem(last=False)
            self._incomplete_until = self._now() + self._seconds


def _keeps_devices(before: Slice, after: Slice) -> bool:
    """Whether every device is published for the same nodes as before, whatever its taints."""
    now = _untainted(after)
    return _without_devices(before) == _without_devices(after) and all(
        now.get(name) == device for name, device in _untainted(before).items()
    )


def _without_devices(each: Slice) -> Slice:
    """Return what all devices of a slice share. A pool of another generation can be incomplete."""
    return replace(each, devices=(), annotations={}, generation=0, slice_count=0)


def _untainted(each: Slice) -> Mapping[str, Device]:
    return {device.name: replace(device, taints=()) for device in each.devices}
