"""The shared counters of one pool, and the amounts that its devices consume.

Amounts are integers in billionths. States are immutable, so that a search can return to an earlier
state. The caller knows the allocated devices, and charges a device only once if it is shared.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from drawbridge.dra.device import CounterSet, Device

# The name of a counter set, and the name of a counter in it.
CounterKey: TypeAlias = tuple[str, str]
# The amounts that a device consumes, in billionths.
ConsumedCounters: TypeAlias = Mapping[CounterKey, int]


class Counters(msgspec.Struct, frozen=True):
    """The remaining amounts of a pool in billionths, and its over-committed counters."""

    remaining: Mapping[CounterKey, int]
    over_committed: frozenset[CounterKey] = frozenset()


class Shortage(msgspec.Struct, frozen=True):
    """The counter that prevents the allocation of a device; amounts are in billionths.

    `requested` is 0 if the device does not consume the counter: an over-committed counter blocks
    every device of the pool that consumes counters.
    """

    counter_set: str
    counter: str
    requested: int
    available: int


def consumed_counters(device: Device) -> ConsumedCounters:
    """Return the sum of the amounts that a device consumes."""
    consumed: dict[CounterKey, int] = {}
    for use in device.consumes_counters:
        for name, counter in use.counters.items():
            key = (use.counter_set, name)
            consumed[key] = consumed.get(key, 0) + counter.value.nanos()
    return consumed


def available_counters(
    sets: Mapping[str, CounterSet], published: Iterable[Device], allocated: Container[str]
) -> Counters:
    """Return the counters of a pool without the amounts of its allocated devices.

    `published` are the devices of the pool on all nodes, `allocated` the names of those allocated
    without admin access. Ignores devices that are no longer published, and unknown counters.
    """
    totals = {
        (members.name, name): counter.value.nanos()
        for members in sets.values()
        for name, counter in members.counters.items()
    }
    consuming = (
        consumed_counters(device)
        for device in published
        if device.consumes_counters and device.name in allocated
    )
    return subtract(Counters(totals), consuming)


def subtract(counters: Counters, consumed: Iterable[ConsumedCounters]) -> Counters:
    """Return the counters without these amounts, of which unknown counters are ignored."""
    left = dict(counters.remaining)
    for amounts in consumed:
        _subtract(left, amounts)
    return Counters(left, frozenset(key for key, amount in left.items() if amount < 0))


def charge(counters: Counters, consumed: ConsumedCounters) -> Counters | Shortage:
    """Return the counters without the amounts of a device, or the counter that is too low.

    A counter that is already over-committed blocks the device even if the device does not consume
    it. Do not call this for a device without consumesCounters.
    """
    for key, amount in consumed.items():
        remaining = counters.remaining.get(key)
        if remaining is not None and remaining < amount:
            return Shortage(*key, requested=amount, available=remaining)
    for key in counters.over_committed:
        if key not in consumed:
            return Shortage(*key, requested=0, available=counters.remaining[key])
    left = dict(counters.remaining)
    _subtract(left, consumed)
    return Counters(left)


def unknown_counters(device: Device, sets: Mapping[str, CounterSet]) -> Iterator[tuple[int, str]]:
    """Yield the unknown counters that a device consumes, with the index of the entry.

    The counter is "" if the counter set is unknown. One such device makes the pool invalid.
    """
    for index, use in enumerate(device.consumes_counters):
        if use.counter_set not in sets:
            yield index, ""
            continue
        published = sets[use.counter_set].counters
        yield from ((index, name) for name in use.counters if name not in published)


def _subtract(left: dict[CounterKey, int], consumed: ConsumedCounters) -> None:
    for key, amount in consumed.items():
        if key in left:
            left[key] -= amount
