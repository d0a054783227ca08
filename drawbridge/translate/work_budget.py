"""Limits the work for one object by its size, whatever its shape.

A unit is about a microsecond of work. Every object has the same base, which is enough for ordinary
pods, and more for each byte of its JSON. Code whose work can grow faster than the object charges it
before doing it.
"""

from typing import Final

import msgspec

from drawbridge.documents.patch import EditError
from drawbridge.documents.values import Value

BASE_UNITS: Final = 20_000  # a hundred containers with a GPU each
BYTES_PER_UNIT: Final = 5
# Items of a list, or bytes of a text, that are copied or moved in one unit.
_MOVED_PER_UNIT: Final = 512

_ENCODER: Final = msgspec.json.Encoder()
# Lone surrogates, integers of more than 64 bits, values that are nested too deeply.
_NOT_ENCODABLE: Final = (ValueError, OverflowError, RecursionError, TypeError, msgspec.MsgspecError)


class WorkLimitError(EditError):
    """Raised before work that exceeds the budget; the message gives the limit and the size."""


class WorkBudget:
    """The units of work that are left for one object; measures the object only if it must."""

    def __init__(self, value: Value) -> None:
        self.spent = 0
        self.limit = BASE_UNITS
        self._value = value
        self._size: int | None = None

    def charge(self, units: int) -> None:
        """Spend units; raises WorkLimitError if there are not enough left."""
        self.spent += units
        if self.spent > self.limit:
            self._extend()

    def charge_moved(self, items: int) -> None:
        """Spend the units for copying or moving items of a list or bytes of a text."""
        self.charge(1 + items // _MOVED_PER_UNIT)

    def _extend(self) -> None:
        """Add the units for the size of the object, once."""
        if self._size is None:
            self._size = _measure(self._value)
            self.limit += self._size // BYTES_PER_UNIT
        if self.spent > self.limit:
            raise WorkLimitError(
                f"the pod has {self._size:,} bytes, for which the limit is {self.limit:,} units of "
                "work, and its translation takes more"
            )


def _measure(value: Value) -> int:
    """Return the size of a value as JSON; 0 if it cannot be written as JSON."""
    try:
        return len(_ENCODER.encode(value))
    except _NOT_ENCODABLE:
        return 0


def count_values(value: Value) -> int:
    """Count the values in a value, and long texts by their length: the work to compare it."""
    units, left = 0, [value]
    while left:
        inner = left.pop()
        units += 1
        if isinstance(inner, str):
            units += len(inner) // _MOVED_PER_UNIT
        elif isinstance(inner, dict):
            left += inner.values()
        elif isinstance(inner, list):
            left += inner
    return units
