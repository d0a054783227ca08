"""Accounts, which devices are charged to, and amounts: devices, or devices for some seconds.

All arithmetic is rational, so that sums are equal in every order and grouping. What is added up is
in billionths, because the sum of other fractions has a longer denominator with each of them.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Final, NamedTuple

import msgspec

# No name of Kubernetes has parentheses.
OTHER: Final = "(other)"
UNKNOWN: Final = "(unknown)"
ZERO: Final = Fraction(0)
NANO: Final = 10**9


class Account(NamedTuple):
    """Namespace, class and root owner: whom a device is charged to."""

    namespace: str
    class_name: str
    owner: str


class UsedAmount(msgspec.Struct, frozen=True):
    """Devices and bytes of device memory; multiplied by seconds in a sum over time.

    A share of a device counts as its fraction. `unknown` counts devices of which nobody knows
    whether, or how much of them, an account held; they are not in `devices`.
    """

    devices: Fraction = ZERO
    unknown: Fraction = ZERO
    memory: Fraction = ZERO

    def plus(self, other: "UsedAmount") -> "UsedAmount":
        """Return the sum."""
        return UsedAmount(
            self.devices + other.devices, self.unknown + other.unknown, self.memory + other.memory
        )

    def times(self, factor: int) -> "UsedAmount":
        """Return the product, for example with a number of seconds."""
        return UsedAmount(self.devices * factor, self.unknown * factor, self.memory * factor)

    def at_least_nothing(self) -> "UsedAmount":
        """Return the same without what is less than nothing."""
        return UsedAmount(max(self.devices, ZERO), max(self.unknown, ZERO), max(self.memory, ZERO))


NOTHING: Final = UsedAmount()


def round_to_nano(amount: Fraction) -> Fraction:
    """Return the nearest number of billionths."""
    return Fraction(round(amount * NANO), NANO)


def sum_usage(parts: Iterable[tuple[Account, UsedAmount]]) -> dict[Account, UsedAmount]:
    """Return the sum of each account, without accounts whose sum is zero."""
    sums: dict[Account, UsedAmount] = {}
    for account, amount in parts:
        before = sums.get(account)
        sums[account] = amount if before is None else before.plus(amount)
    return {account: amount for account, amount in sums.items() if amount != NOTHING}
