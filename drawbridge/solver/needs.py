"""Needs for devices and the candidates that can satisfy them, to count before a search.

Sets of candidates or values are bits of an integer.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from drawbridge.dra.device import Attribute
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.demand import Option

Bits: TypeAlias = int
# The suitable candidates of options, for one choice of the values of constraints or rules.
Choice: TypeAlias = Mapping[Option, Bits]
MAX_UNIONS = 10
MAX_COMBINATIONS = 256


class OptionProfile:
    """The candidates from the view of options with the same equivalence key.

    `eligible` are the candidates that can be chosen, `failing` those that cause an error.
    `attributes` holds the attribute of each candidate by constraint, `by_value` the candidates by
    constraint and value. A constraint is known by its index, and rules by the attribute that they
    read.
    """

    __slots__ = ("attributes", "by_value", "eligible", "failing")

    def __init__(self, keys: Iterable[int | str]) -> None:
        self.eligible: Bits = 0
        self.failing: Bits = 0
        # In the same order on all nodes, because nodes are compared by these values.
        self.attributes: dict[int | str, dict[Candidate, Attribute]] = {key: {} for key in keys}
        self.by_value: dict[int | str, dict[Hashable, Bits]] = {}

    def note(
        self,
        key: int | str,
        candidate: Candidate,
        attribute: Attribute,
        values: Collection[Hashable],
        bit: Bits,
    ) -> None:
        """Add the attribute of a candidate for a constraint or a rule, with the values it counts.

        An attribute without such values equals no other.
        """
        self.attributes[key][candidate] = attribute
        by_value = self.by_value.setdefault(key, {})
        for value in values or (candidate,):
            by_value[value] = by_value.get(value, 0) | bit


class DeviceNeed(NamedTuple):
    """A number of devices needed from any of the parts; each part belongs to one option."""

    wanted: int
    parts: tuple[tuple[Option, Bits], ...]

    @property
    def union(self) -> Bits:
        """All suitable candidates."""
        union = 0
        for _, bits in self.parts:
            union |= bits
        return union


def restrict(need: DeviceNeed, choice: Choice) -> DeviceNeed:
    """Return a need with only the candidates of a choice."""
    parts = tuple([(option, bits & choice.get(option, bits)) for option, bits in need.parts])
    return DeviceNeed(need.wanted, parts)


def exceeds_supply(wanted: dict[Bits, int]) -> bool:
    """Return whether some of the needs exceed their devices together (Hall's theorem)."""
    if len(wanted) > MAX_UNIONS:
        total, union = 0, 0
        for devices, count in wanted.items():
            if count > devices.bit_count():
                return True
            total, union = total + count, union | devices
        return total > union.bit_count()
    unions = [(0, 0)]
    for devices, count in wanted.items():
        for union, total in list(unions):
            more = (union | devices, total + count)
            if more[1] > more[0].bit_count():
                return True
            unions.append(more)
    return False
