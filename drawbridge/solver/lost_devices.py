"""What allocated devices consume that their driver does not publish any more.

The mark of a claim records it, and whoever may write the claim can forge the mark. For a published
device the slice counts alone. A lost device consumes at most as many counter sets as some published
device of its pool, and at most the total of a counter: the largest device can be withdrawn.
"""

from collections.abc import Collection, Mapping
from itertools import islice
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
    sets = (len({use.counter_set for use in each.counter_uses}) for each in published)
    most_sets = max(sets, default=0)
    return tuple([_bound(name, recorded[name], totals, most_sets) for name in lost])


def _bound(
    name: str, uses: tuple[CounterUse, ...], totals: Mapping[CounterKey, int], most_sets: int
) -> LostDevice:
    allowed = frozenset(islice(dict.fromkeys(use.counter_set for use in uses), most_sets))
    kept = tuple([use for use in uses if use.counter_set in allowed])
    consumed = consumed_counters(Device(name, consumes_counters=kept))
    return LostDevice(
        kept, {key: min(amount, totals.get(key, 0)) for key, amount in consumed.items()}
    )
