"""What allocated devices consume that their driver does not publish any more.

The mark of a claim records it, and whoever may write the claim can forge the mark. For a published
device the slice counts alone. A lost device consumes only counters of its pool, and at most the
total of each: the largest device can be withdrawn, and so can the only one of several counter sets.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from drawbridge.dra.counters import ConsumedCounters, CounterKey, consumed_counters
from drawbridge.dra.device import CounterUse, Device
from drawbridge.solver.candidates import Candidate


class LostDevice(NamedTuple):
    """The recorded counter sets and groups of a device, and the amounts that count."""

    uses: tuple[CounterUse, ...]
    consumed: ConsumedCounters


def find_lost_devices(
    recorded: Mapping[str, tuple[CounterUse, ...]],
    published: Collection[Candidate],
    totals: Mapping[CounterKey, int],
) -> tuple[LostDevice, ...]:
    """Return the recorded devices that are not published, by name; `totals` are of all counters."""
    names = {candidate.name for candidate in published}
    lost = sorted(recorded.keys() - names)
    if not lost:
        return ()
    sets = {counter_set for counter_set, _ in totals}
    return tuple([_bound(name, recorded[name], totals, sets) for name in lost])


def _bound(
    name: str,
    uses: tuple[CounterUse, ...],
    totals: Mapping[CounterKey, int],
    sets: Collection[str],
) -> LostDevice:
    kept = tuple([use for use in uses if use.counter_set in sets])
    consumed = consumed_counters(Device(name, consumes_counters=kept))
    return LostDevice(
        kept, {key: min(amount, totals.get(key, 0)) for key, amount in consumed.items()}
    )
