"""Runs a computation that may be cut short: the port of what interrupts it.

What is cut goes on in a copy of the process. What it took until then was in vain, and others
waited: a namespace with such a computation has less time for the next one.
"""

import math
from collections.abc import Callable
from inspect import isfunction
from types import CodeType
from typing import Any, Final, NamedTuple, TypeVar

from drawbridge.bounded_cache import BoundedCache

T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])
USUAL_SECONDS: Final = 0.02
LEAST_SECONDS: Final = 0.001
# So long after its last cut, a namespace has the usual time again.
FORGIVEN_SECONDS: Final = 10.0
MAX_NAMESPACES: Final = 4096


_WHOLE: Final[set[CodeType]] = set()
_WAITING: Final[set[CodeType]] = set()


def whole(marked: M) -> M:
    """Let nothing interrupt a function, or those of a class, which keep several fields in step."""
    functions = filter(isfunction, (marked, *vars(marked).values()))
    _WHOLE.update(each.__code__ for each in functions)
    return marked


whole(BoundedCache)


def is_whole(code: CodeType) -> bool:
    """Return whether code belongs to a function that nothing interrupts."""
    return code in _WHOLE


def waiting(marked: M) -> M:
    """Let the clock of the wall count for a function that waits for its own work in a thread."""
    _WAITING.add(marked.__code__)
    return marked


def is_waiting(code: CodeType) -> bool:
    """Return whether code belongs to a function that waits for its own work in a thread."""
    return code in _WAITING


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


class NamespaceTimes:
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


class BriefRuns:
    """Runs computations for namespaces, each in its time."""

    def __init__(
        self, brief: Brief, now: Callable[[], float], least_seconds: float = LEAST_SECONDS
    ) -> None:
        self._brief = brief
        self._now = now
        self._times = NamespaceTimes(least_seconds)

    def run(self, namespace: str, compute: Callable[[], T]) -> T:
        """Return what a function returns; raises CutShort."""
        self._brief.seconds = self._times.seconds(namespace, self._now())
        try:
            return self._brief.run(compute)
        except CutShort:
            self._times.note_cut(namespace, self._now())
            raise
        finally:
            self._brief.stop()
