"""Reads the devices and shares that one claim holds from its allocation."""

from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple, TypeAlias

import msgspec

from drawbridge.dra.allocation import MAX_RESULTS, Allocation, AllocationResult
from drawbridge.dra.capacity import Amounts
from drawbridge.dra.device import Counter, CounterUse
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.quantity import Quantity
from drawbridge.ledger.allocation_mark import UNMARKED, Mark, MarkedDevice

# A device of Kubernetes consumes fewer counters. Whoever writes more has forged the mark.
MAX_COUNTERS: Final = 256
# The counters that a mark records for one device.
Draw: TypeAlias = tuple[CounterUse, ...]


class DeviceID(NamedTuple):
    """Identifies a device; sorted by pool."""

    pool: PoolID
    name: str


def device_of(result: AllocationResult) -> DeviceID:
    """Return the device of a result."""
    return DeviceID(PoolID(result.driver, result.pool), result.device)


class Hold(msgspec.Struct, frozen=True):
    """One device or one share of it; `marked_draw` holds the counters recorded in the mark.

    `share` is the ID of the share.
    """

    pool: PoolID
    device: str
    shared: bool = False
    consumed: Amounts = {}
    marked_draw: Draw = ()
    share: str = ""

    @property
    def device_id(self) -> DeviceID:
        """The device."""
        return DeviceID(self.pool, self.device)


def read_holds(allocation: Allocation | None, mark: Mark = UNMARKED) -> tuple[Hold, ...]:
    """Return what an allocation holds; results with admin access hold nothing.

    A share that was allocated stays one after DRAConsumableCapacity is disabled.
    """
    results = allocation.devices.results if allocation else ()
    marked = mark.by_result() if results else {}
    return tuple(
        _read_hold(result, marked.get((result.driver, result.pool, result.device, result.share_id)))
        for result in results
        if not result.admin_access
    )


def read_marked_holds(mark: Mark) -> tuple[Hold, ...]:
    """Return the devices in the mark of a claim without an allocation, each as a whole.

    Amounts of shares count only in an allocation, because a tenant can write the mark. No
    allocation has more than MAX_RESULTS devices.
    """
    if len(mark.devices) > MAX_RESULTS:
        return ()
    return tuple(
        Hold(
            PoolID(device.driver, device.pool), device.device, marked_draw=_read_marked_draw(device)
        )
        for device in mark.devices
    )


def _read_hold(result: AllocationResult, marked: MarkedDevice | None) -> Hold:
    pool, device = device_of(result)
    shared = result.share_id is not None
    consumed = result.consumed_capacity if shared else {}
    draw = () if marked is None else _read_marked_draw(marked)
    return Hold(pool, device, shared, consumed, draw, result.share_id or "")


def _read_marked_draw(marked: MarkedDevice) -> Draw:
    """Return the recorded counters; none if there are too many to compare at each change."""
    if sum(1 + len(use.counters) for use in marked.consumes_counters) > MAX_COUNTERS:
        return ()
    return tuple(map(_without_negative_amounts, marked.consumes_counters))


def merge_draws(several: Iterable[Draw]) -> Draw:
    """Merge counters that marks record for one device: the maximum of each counter.

    The result keeps the groups of all marks. A further mark adds only the excess over the marks
    before it, so the sum of the result is the maximum.
    """
    draws = sorted(several, key=_order_of)
    if len(draws) < 2:
        return draws[0] if draws else ()
    most: dict[tuple[str, str], Quantity] = {}
    return tuple(_excess(use, most) for uses in draws for use in _merge_sets(uses))


def content_of(draw: Draw) -> Hashable:
    """Return what is equal for equal counters: thousands of claims can mark one device."""
    return tuple(
        (use.counter_set, use.compatibility_groups, frozenset(use.counters.items())) for use in draw
    )


def _order_of(draw: Draw) -> list[tuple[str, tuple[str, ...], list[tuple[str, Quantity]]]]:
    """Return what marks are sorted by, in whatever order they came."""
    return [
        (
            use.counter_set,
            use.compatibility_groups,
            sorted((name, counter.value) for name, counter in use.counters.items()),
        )
        for use in draw
    ]


def _merge_sets(uses: Draw) -> Iterable[CounterUse]:
    """Merge entries of the same counter set, because their amounts add up."""
    counters: dict[str, dict[str, Counter]] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for use in uses:
        drawn = counters.setdefault(use.counter_set, {})
        groups.setdefault(use.counter_set, use.compatibility_groups)
        for name, counter in use.counters.items():
            current = drawn.get(name)
            drawn[name] = Counter(current.value + counter.value) if current else counter
    return (CounterUse(name, drawn, groups[name]) for name, drawn in counters.items())


def _excess(use: CounterUse, most: dict[tuple[str, str], Quantity]) -> CounterUse:
    counters = {}
    for name, counter in use.counters.items():
        current = most.get((use.counter_set, name))
        if current is None or current < counter.value:
            most[use.counter_set, name] = counter.value
            counters[name] = Counter(counter.value - current) if current else counter
    return CounterUse(use.counter_set, counters, use.compatibility_groups)


def _without_negative_amounts(use: CounterUse) -> CounterUse:
    """Remove negative amounts, with which a mark would free counters that others hold."""
    if all(counter.value.sign() >= 0 for counter in use.counters.values()):
        return use
    kept = {name: each for name, each in use.counters.items() if each.value.sign() >= 0}
    return CounterUse(use.counter_set, kept, use.compatibility_groups)
