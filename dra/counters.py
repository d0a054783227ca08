"""The counters of one pool: what its devices may still draw from them.

Counts in billionths, so that every quantity is a plain int. States are values: charging gives a
new one, and going back is to keep the old one. Which devices are allocated is the caller's to
say; that a further share of a device, once charged, draws nothing as well.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from dra.device import CounterSet, Device

# A counter by the name of its set and its own.
CounterKey: TypeAlias = tuple[str, str]
# What a device draws, in billionths.
ConsumedCounters: TypeAlias = Mapping[CounterKey, int]


class Counters(msgspec.Struct, frozen=True):
    """What is left in a pool, in billionths, and which counters are over-committed."""

    remaining: Mapping[CounterKey, int]
    overdrawn: frozenset[CounterKey] = frozenset()


class Shortage(msgspec.Struct, frozen=True):
    """The counter that keeps a device from being taken, in billionths.

    `requested` is 0 where the device does not draw from the counter: an over-committed counter
    blocks every device of the pool that draws from any.
    """

    counter_set: str
    counter: str
    requested: int
    available: int


def consumed_counters(device: Device) -> ConsumedCounters:
    """Sum up what a device draws; a set named twice counts twice."""
    drawn: dict[CounterKey, int] = {}
    for use in device.consumes_counters:
        for name, counter in use.counters.items():
            key = (use.counter_set, name)
            drawn[key] = drawn.get(key, 0) + counter.value.nanos()
    return drawn


def available_counters(
    sets: Mapping[str, CounterSet], published: Iterable[Device], allocated: Container[str]
) -> Counters:
    """Say what the allocated devices of a pool leave, by what is published now.

    `published` are all devices of the pool, on whatever node; `allocated` the names of those with
    a result that is not adminAccess, once however many shares. An allocated device that is
    published no more draws nothing; nor does anything from a counter that no set has.
    """
    left = {
        (each.name, name): counter.value.nanos()
        for each in sets.values()
        for name, counter in each.counters.items()
    }
    for device in published:
        if device.consumes_counters and device.name in allocated:
            _subtract(left, consumed_counters(device))
    return Counters(left, frozenset(key for key, rest in left.items() if rest < 0))


def charge(counters: Counters, drawn: ConsumedCounters) -> Counters | Shortage:
    """Take a device's draw, or name the counter that does not allow it.

    The whole pool is compared: a counter that was over-committed before refuses the device even
    if it draws from others only. Not to be asked for a device without consumesCounters.
    """
    for key, amount in drawn.items():
        rest = counters.remaining.get(key)
        if rest is not None and rest < amount:
            return Shortage(*key, requested=amount, available=rest)
    for key in counters.overdrawn:
        if key not in drawn:
            return Shortage(*key, requested=0, available=counters.remaining[key])
    left = dict(counters.remaining)
    _subtract(left, drawn)
    return Counters(left)


def release(counters: Counters, drawn: ConsumedCounters) -> Counters:
    """Give a device's draw back, as if it had never been allocated."""
    left = dict(counters.remaining)
    _subtract(left, {key: -amount for key, amount in drawn.items()})
    affected = counters.overdrawn.union(drawn)
    return Counters(left, frozenset(key for key in affected if left.get(key, 0) < 0))


def unknown_counters(device: Device, sets: Mapping[str, CounterSet]) -> Iterator[tuple[int, str]]:
    """Name what a device draws from and no set has: the index of its use and the counter.

    The counter is "" where the set itself is unknown. One such device makes the pool invalid.
    """
    for index, use in enumerate(device.consumes_counters):
        if use.counter_set not in sets:
            yield index, ""
            continue
        known = sets[use.counter_set].counters
        yield from ((index, name) for name in use.counters if name not in known)


def _subtract(left: dict[CounterKey, int], drawn: ConsumedCounters) -> None:
    for key, amount in drawn.items():
        if key in left:
            left[key] -= amount
