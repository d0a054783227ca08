"""Remembers which drivers withdrew or changed devices a short time ago.

A driver that restarts, or publishes a pool anew, withdraws devices that come back. Requests for
them must not be refused meanwhile.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from dra.device import Device
from dra.slices import Slice


class WithdrawnDevices:
    """The time of the last withdrawal of each driver, for the last minutes."""

    def __init__(self, seconds: float, now: Callable[[], float]) -> None:
        self._seconds = seconds
        self._now = now
        self._times: dict[str, float] = {}

    def observe(self, before: Slice | None, after: Slice | None, *, known_pool: bool) -> None:
        """Compare a slice before and after a change.

        A new slice of a known pool can replace the pool's other slices by its generation.
        """
        if before is None:
            if after is not None and known_pool:
                self._record(after.driver)
        elif after is None or not _keeps_devices(before, after):
            self._record(before.driver)

    def _record(self, driver: str) -> None:
        now = self._now()
        # Few drivers exist, but a hostile one can publish slices of many names.
        self._times = {
            driver: time for driver, time in self._times.items() if now - time < self._seconds
        }
        self._times[driver] = now

    def recent_drivers(self) -> frozenset[str]:
        """Return the drivers that withdrew devices within the last minutes."""
        now = self._now()
        return frozenset(each for each, time in self._times.items() if now - time < self._seconds)


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
