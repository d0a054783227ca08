"""What the driver of a node has published: a request for all devices gets one of these pools."""

from collections.abc import Collection
from typing import NamedTuple

from tests.world.asks import Choice
from tests.world.objects import Shape


class _Publication(NamedTuple):
    shares: bool
    left_out: str
    tainted: frozenset[str]


class Publications:
    """All different pools that a driver has published.

    An allocator can decide with an older one than that of today: it hears of slices late, and a
    pod is bound long after the decision.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._noted: set[_Publication] = set()

    def note(self, left_out: str, tainted: Collection[str], *, shares: bool) -> None:
        """Note a pool that is published without a device, and with taints of others."""
        self._noted.add(_Publication(shares, left_out, frozenset(tainted)))

    def has_all(self, choice: Choice, given: Collection[str]) -> bool:
        """Whether these were once all devices that a request selects, and none had a taint."""
        for pool in self._noted:
            shape = self._shape if pool.shares else self._shape.without_shares()
            if choice.select(shape, pool.left_out) == {*given} and pool.tainted.isdisjoint(given):
                return True
        return False
