"""The devices of one node, by how much of their slots, compute and memory is in use.

The rules that other projects have, in their meaning: tensor-fusion's CompactFirst, LowLoadFirst and
NodeCompactGPULowLoad, and HAMi's binpack, spread, topology-aware and numa. All of them compare one
figure, the use in thousandths, for the devices and for the node. A total of zero says nothing.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Final, NamedTuple

import msgspec

from drawbridge.choice.amounts import WHOLE
from drawbridge.choice.strategy import Part

# More sets of devices than this are not compared: the set grows by the best device instead.
_MAX_SETS: Final = 20_000


class DeviceAmount(NamedTuple):
    """Slots, compute and memory of a device, in use or asked for, in the units of the device."""

    slots: int = 0
    compute: int = 0
    memory: int = 0


class DeviceLoad(NamedTuple):
    """A device: what it has, what is in use, its NUMA node, and its links to other devices.

    A link is better the larger its number is; without one it is 0.
    """

    name: str
    total: DeviceAmount
    used: DeviceAmount = DeviceAmount()
    numa: int | None = None
    links: Mapping[str, int] = {}

    def holds(self, asked: DeviceAmount) -> bool:
        """Whether what is asked for is left."""
        left = zip(self.total, self.used, asked, strict=True)
        return all(total - used >= amount for total, used, amount in left)


class Order(enum.StrEnum):
    """What comes first."""

    FULLEST = "fullest"
    EMPTIEST = "emptiest"


class DeviceRules(msgspec.Struct, frozen=True):
    """How nodes and the devices of a node are compared; weights are by slots, compute, memory."""

    name: str
    nodes: Order
    devices: Order
    weights: DeviceAmount = DeviceAmount(1, 1, 1)
    same_numa: bool = False  # devices of one NUMA node come first
    linked: bool = False  # several devices: the best links; one: the worst

    def of_node(self, devices: Sequence[DeviceLoad]) -> tuple[Part, ...]:
        """Return the score of a node, a part for each resource; the number of devices is equal."""
        if not devices:
            return ()
        sign = 1 if self.nodes is Order.FULLEST else -1
        sums = [self._parts(each, DeviceAmount()) for each in devices]
        return tuple(
            Part(name, sign * sum(each[number] for each in sums) // len(devices))
            for number, name in enumerate(DeviceAmount._fields)
        )

    def choose(
        self, devices: Sequence[DeviceLoad], asked: DeviceAmount, count: int
    ) -> tuple[DeviceLoad, ...]:
        """Return the devices that a task takes; none if too few have what it asks for."""
        able = [each for each in devices if each.holds(asked)]
        if not 0 < count <= len(able):
            return ()
        if self.linked:
            return _by_links(able, count)
        ordered = sorted(able, key=lambda each: self._rank(each, asked))
        if self.same_numa:
            for first in ordered:
                near = [each for each in ordered if each.numa == first.numa]
                if first.numa is not None and len(near) >= count:
                    return tuple(near[:count])
        return tuple(ordered[:count])

    def of_device(self, device: DeviceLoad, asked: DeviceAmount) -> tuple[Part, ...]:
        """Return the score of a device with the task on it, a part for each resource."""
        sign = 1 if self.devices is Order.FULLEST else -1
        values = zip(DeviceAmount._fields, self._parts(device, asked), strict=True)
        return tuple(Part(name, sign * value) for name, value in values)

    def _rank(self, device: DeviceLoad, asked: DeviceAmount) -> int:
        return -sum(part.value for part in self.of_device(device, asked))

    def _parts(self, device: DeviceLoad, asked: DeviceAmount) -> list[int]:
        total = max(1, sum(self.weights))
        return [
            weight * (used + amount) * WHOLE // (total * most) if most else 0
            for weight, used, amount, most in zip(
                self.weights, device.used, asked, device.total, strict=True
            )
        ]


def _by_links(able: Sequence[DeviceLoad], count: int) -> tuple[DeviceLoad, ...]:
    """Return one device with the worst links, or several that have the best among themselves."""
    if count == 1:
        return (min(able, key=lambda each: sum(each.links.get(one.name, 0) for one in able)),)
    if comb(len(able), count) <= _MAX_SETS:
        return max(combinations(able, count), key=_sum_of_links)
    chosen = list(max(combinations(able, 2), key=_sum_of_links))
    while len(chosen) < count:
        rest = [each for each in able if each not in chosen]
        chosen.append(max(rest, key=lambda each: _sum_of_links([*chosen, each])))
    return tuple(each for each in able if each in chosen)


def _sum_of_links(devices: Iterable[DeviceLoad]) -> int:
    return sum(one.links.get(other.name, 0) for one, other in combinations(devices, 2))


_FULLEST, _EMPTIEST = Order.FULLEST, Order.EMPTIEST
# tensor-fusion compares memory and compute, and no slots.
_MEMORY_FIRST: Final = DeviceAmount(0, 3, 7)

DEVICE_RULES: Final[Mapping[str, DeviceRules]] = {
    each.name: each
    for each in (
        DeviceRules("CompactFirst", _FULLEST, _FULLEST, _MEMORY_FIRST),
        DeviceRules("LowLoadFirst", _EMPTIEST, _EMPTIEST, _MEMORY_FIRST),
        DeviceRules("NodeCompactGPULowLoad", _FULLEST, _EMPTIEST, _MEMORY_FIRST),
        DeviceRules("binpack", _FULLEST, _FULLEST),
        DeviceRules("spread", _EMPTIEST, _EMPTIEST),
        DeviceRules("binpack/spread", _FULLEST, _EMPTIEST),
        DeviceRules("spread/binpack", _EMPTIEST, _FULLEST),
        DeviceRules("numa", _FULLEST, _EMPTIEST, same_numa=True),
        DeviceRules("topology-aware", _FULLEST, _EMPTIEST, linked=True),
    )
}
