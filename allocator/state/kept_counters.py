"""What to keep of the counters of a device, while others still hold the rest of them.

A partition of a GPU can take the place of several others. What is free of the counters that it
consumes is kept at once, or pods that come meanwhile would make each eviction vain.
"""

from collections.abc import Mapping
from typing import Final

from drawbridge.dra.counters import ConsumedCounters, CounterKey
from drawbridge.dra.device import Counter, CounterUse
from drawbridge.dra.quantity import parse
from drawbridge.ledger.holdings import DeviceID, Hold

# No driver can publish a name with a space, so that what a device of it consumes is what the hold
# says. What several pods keep adds up.
_NAME: Final = "counters of {} for {}"


def keep_counters(
    pod_uid: str, device: DeviceID, consumed: ConsumedCounters, left: Mapping[CounterKey, int]
) -> Hold:
    """Return what holds for a pod the counters that a device consumes, as far as they are left."""
    draw = tuple(
        CounterUse(counter_set, {counter: Counter(parse(f"{min(amount, free)}n"))})
        for (counter_set, counter), amount in consumed.items()
        if (free := left.get((counter_set, counter), 0)) > 0
    )
    return Hold(device.pool, _NAME.format(device.name, pod_uid), marked_draw=draw)
