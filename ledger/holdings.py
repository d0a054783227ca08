"""What one claim holds, read from an allocation: whole devices, and shares of devices.

Knows one claim at a time; what several hold together is the ledger's.
"""

from collections.abc import Iterable, Mapping

import msgspec

from dra.allocation import Allocation, AllocationResult
from dra.capacity import Amounts
from dra.device import Counter, CounterUse
from dra.inventory import PoolID
from dra.quantity import Quantity
from ledger.allocation_mark import UNMARKED, Mark, MarkedDevice


class Hold(msgspec.Struct, frozen=True):
    """One device, or one share of it; `drew` is what the mark says it drew from counters."""

    pool: PoolID
    device: str
    shared: bool = False
    consumed: Amounts = {}
    drew: tuple[CounterUse, ...] = ()


def read_holds(
    allocation: Allocation | None, mark: Mark = UNMARKED, *, sharing: bool = True
) -> tuple[Hold, ...]:
    """Give what an allocation holds; results with admin access hold nothing.

    Without `sharing` the scheduler does not know shares: they count as whole devices.
    """
    results = allocation.devices.results if allocation else ()
    return tuple(
        _hold(each, mark.about(each), sharing=sharing) for each in results if not each.admin_access
    )


def _hold(result: AllocationResult, marked: MarkedDevice | None, *, sharing: bool) -> Hold:
    pool = PoolID(result.driver, result.pool)
    shared = sharing and result.share_id is not None
    consumed = result.consumed_capacity if shared else {}
    if marked is None:
        return Hold(pool, result.device, shared, consumed)
    granted = marked.consumed_capacity if shared else {}
    drew = tuple(map(_at_least_nothing, marked.consumes_counters))
    return Hold(pool, result.device, shared, _most(consumed, granted), drew)


def merge_marked_draws(several: Iterable[Hold]) -> tuple[CounterUse, ...]:
    """Give what marks say one device drew: for each counter the most that any of them says.

    What a further mark says is added as far as it goes beyond those before, so that what counts
    draws once takes the maximum, and what compares groups sees the groups of all marks.
    """
    told: list[tuple[CounterUse, ...]] = []
    for each in several:
        if each.drew and each.drew not in told:
            told.append(each.drew)
    if len(told) < 2:
        return told[0] if told else ()
    most: dict[tuple[str, str], Quantity] = {}
    return tuple(_beyond(use, most) for uses in told for use in _summed(uses))


def _summed(uses: tuple[CounterUse, ...]) -> Iterable[CounterUse]:
    """Write a set that is named twice once, because it counts twice."""
    counters: dict[str, dict[str, Counter]] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for use in uses:
        drawn = counters.setdefault(use.counter_set, {})
        groups.setdefault(use.counter_set, use.compatibility_groups)
        for name, counter in use.counters.items():
            known = drawn.get(name)
            drawn[name] = Counter(known.value + counter.value) if known else counter
    return (CounterUse(name, drawn, groups[name]) for name, drawn in counters.items())


def _beyond(use: CounterUse, most: dict[tuple[str, str], Quantity]) -> CounterUse:
    counters = {}
    for name, counter in use.counters.items():
        known = most.get((use.counter_set, name))
        if known is None or known < counter.value:
            most[use.counter_set, name] = counter.value
            counters[name] = Counter(counter.value - known) if known else counter
    return CounterUse(use.counter_set, counters, use.compatibility_groups)


def _at_least_nothing(use: CounterUse) -> CounterUse:
    """Take out amounts below nothing: with them a mark would give away what others hold."""
    if all(counter.value.sign() >= 0 for counter in use.counters.values()):
        return use
    kept = {name: each for name, each in use.counters.items() if each.value.sign() >= 0}
    return CounterUse(use.counter_set, kept, use.compatibility_groups)


def _most(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Amounts:
    """Give for each name the larger amount."""
    if not other:
        return one
    most = dict(one)
    for name, amount in other.items():
        if amount.sign() > 0 and (name not in most or most[name] < amount):
            most[name] = amount
    return most
