"""Runs a computation that may be cut short: the port of what interrupts it."""

import math
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class CutShort(BaseException):  # not an error: the rest is computed elsewhere
    """A computation was interrupted. It is no Exception, so that nothing in between handles it."""


class Brief:
    """Runs computations that may take some `seconds` of the processor; this one cuts none."""

    def __init__(self) -> None:
        self.seconds = math.inf

    def run(self, compute: Callable[[], T]) -> T:
        """Return what a function returns; raises CutShort."""
        return compute()

    def stop(self) -> None:
        """Cut nothing until the next computation, because somebody else has the processor."""
