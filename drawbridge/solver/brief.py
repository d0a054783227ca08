"""Runs a computation that may be cut short: the port of what interrupts it.

What is cut goes on in a copy of the process. What it took until then was in vain, and others
waited: a namespace with such a computation has less time for the next one.
"""

import math
from collections.abc import Callable
from types import CodeType
from typing import Final, NamedTuple, TypeVar

from drawbridge.bounded_cache import BoundedCache

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
USUAL_SECONDS: Final = 0.02
LEAST_SECONDS: Final = 0.001
# So long after its last cut, a namespace has the usual time again.
FORGIVEN_SECONDS: Final = 10.0
MAX_NAMESPACES: Final = 4096


_WHOLE: Final[set[CodeType]] = set()


def whole(function: F) -> F:
    """Let nothing interrupt a function, because it keeps several fields in step."""
    _WHOLE.add(function.__code__)
    return function


def is_whole(code: CodeType) -> bool:
    """Return whether code belongs to a function that nothing interrupts."""
    return code in _WHOLE


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


class _Cuts(NamedTuple):
    """The time that is left to a namespace, and when its last computation was cut."""

    seconds: float
    at: float


class NamespaceBriefs:
    """The time of each namespace, and the least that it has."""

    def __init__(self, least_seconds: float = LEAST_SECONDS) -> None:
        self._least = least_seconds
        self._cuts: BoundedCache[str, _Cuts] = BoundedCache(MAX_NAMESPACES)

    def seconds(self, namespace: str, now: float) -> float:
        """Return how long a computation may take."""
        cuts = self._cuts.get(namespace)
        is_usual = cuts is None or now - cuts.at >= FORGIVEN_SECONDS
        return USUAL_SECONDS if is_usual or cuts is None else cuts.seconds

    def note_cut(self, namespace: str, now: float) -> None:
        """Note that a computation was cut."""
        less = max(self._least, self.seconds(namespace, now) / 4)
        self._cuts.put(namespace, _Cuts(less, now))
