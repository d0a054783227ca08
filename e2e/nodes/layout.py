"""Describes what a driver publishes of one machine, before the split into ResourceSlices.

Devices keep their wire form, so that the API server and the driver use the same dictionary. A field
that an older API server drops stays in the driver's copy, as in a real driver.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

Wire = dict[str, Any]
Change = Callable[[tuple["Device", ...]], tuple["Device", ...]]


@dataclass(frozen=True)
class Device:
    """One published device and the physical hardware beneath it."""

    name: str
    kind: str
    physical: str
    wire: Wire

    @property
    def shared(self) -> bool:
        """Return whether several claims may have it at once."""
        return bool(self.wire.get("allowMultipleAllocations"))

    def published(self) -> Wire:
        """Return the entry of a ResourceSlice."""
        return {"name": self.name, **self.wire}


@dataclass(frozen=True)
class Sheet:
    """One slice to be: devices, or counter sets, never both."""

    devices: tuple[Device, ...] = ()
    counters: tuple[Wire, ...] = ()


@dataclass(frozen=True)
class Layout:
    """Everything that one driver publishes of one machine; its pool is named like the node."""

    driver: str
    node: str
    sheets: tuple[Sheet, ...]

    @property
    def devices(self) -> dict[str, Device]:
        """Find devices by name."""
        return {device.name: device for sheet in self.sheets for device in sheet.devices}

    @property
    def counters(self) -> dict[str, Wire]:
        """Find counter sets by name."""
        return {
            counters["name"]: counters["counters"]
            for sheet in self.sheets
            for counters in sheet.counters
        }

    def without(self, names: Iterable[str]) -> "Layout":
        """Return the layout after the loss of some devices."""
        gone = set(names)
        return self._with(
            lambda devices: tuple(device for device in devices if device.name not in gone)
        )

    def tainted(self, name: str, taint: Wire) -> "Layout":
        """Return the layout with one device tainted."""
        return self.changed(name, taints=[taint])

    def changed(self, name: str, **fields: object) -> "Layout":
        """Return the layout with other fields of one device."""
        return self._with(
            lambda devices: tuple(
                replace(device, wire={**device.wire, **fields}) if device.name == name else device
                for device in devices
            )
        )

    def shuffled(self, order: random.Random) -> "Layout":
        """Return the layout with its devices in another order.

        Drivers keep devices in maps, so their order is another at each start. Where devices consume
        counters, they are sorted.
        """
        if self.counters:
            return self
        return self._with(lambda devices: tuple(order.sample(devices, len(devices))))

    def _with(self, change: Change) -> "Layout":
        sheets = tuple(replace(sheet, devices=change(sheet.devices)) for sheet in self.sheets)
        return replace(self, sheets=sheets)
