"""What a ResourceClaim holds: the fields that usage depends on, and their amounts.

A device that is allocated as a whole counts 1. A share counts as the largest fraction that it has
of any capacity of the device, in billionths. A device with admin access is used by others and
counts nothing.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

import msgspec

from drawbridge.dra.claim import Owner
from drawbridge.dra.quantity import INT64_MAX, Quantity
from drawbridge.usage.accounts import NANO, ZERO, UsedAmount, round_to_nano

_MEMORY: Final = "memory"
_ONE: Final = Fraction(1)


class HeldPart(msgspec.Struct, frozen=True):
    """One device of an allocation, or one share of it, and its request with the class.

    `share` is the ID of the share.
    """

    class_name: str
    driver: str
    pool: str
    device: str
    shared: bool = False
    consumed: Mapping[str, Quantity] = {}
    request: str = ""
    share: str = ""


class ClaimHolding(msgspec.Struct, frozen=True):
    """What usage depends on in a claim. Times are Unix seconds; None if the claim has none.

    `pods` are the names of the pods that the claim is reserved for. `extended` tells that the
    scheduler made it for a pod that asks for an extended resource.
    """

    namespace: str
    name: str
    uid: str
    created: int | None = None
    allocated: int | None = None
    parts: tuple[HeldPart, ...] = ()
    pods: tuple[str, ...] = ()
    owner: Owner | None = None
    extended: bool = False


# Returns the capacities of a device by driver, pool and name; None if no slice has it.
FindCapacity = Callable[[str, str, str], Mapping[str, Fraction] | None]


def read_time(text: str | None) -> int | None:
    """Return a time of the API server in whole Unix seconds; None for anything else."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return int(time.replace(tzinfo=time.tzinfo or UTC).timestamp())


def measure_part(part: HeldPart, find_capacity: FindCapacity) -> UsedAmount:
    """Return how much of devices a part of a claim holds.

    The fraction of a share is unknown if no slice describes the device.
    """
    capacity = find_capacity(part.driver, part.pool, part.device)
    if not part.shared:
        return UsedAmount(_ONE, memory=_find_memory(capacity or {}))
    consumed = {name: to_fraction(amount) for name, amount in part.consumed.items()}
    memory = _find_memory(consumed)
    if capacity is None:
        return UsedAmount(unknown=_ONE, memory=memory)
    fractions = [
        amount / capacity[name] for name, amount in consumed.items() if capacity.get(name, ZERO) > 0
    ]
    share = min(_ONE, max(fractions, default=ZERO))
    return UsedAmount(round_to_nano(share), memory=memory)


def _find_memory(amounts: Mapping[str, Fraction]) -> Fraction:
    """Return the capacity `memory`, whatever its domain."""
    memory = amounts.get(_MEMORY)
    if memory is None:
        suffix = f"/{_MEMORY}"
        memory = next((each for name, each in amounts.items() if name.endswith(suffix)), ZERO)
    return max(ZERO, memory)


def to_fraction(amount: Quantity) -> Fraction:
    """Return the value of a quantity, at most that of an int64: some have 1,000 digits."""
    return min(Fraction(amount.nanos(), NANO), Fraction(INT64_MAX))
