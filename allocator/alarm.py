"""Cuts a computation short, wherever it is.

A signal interrupts the main thread between two instructions of Python. So only pure code runs
within an alarm: its results are new values, and its caches take each value with one assignment.
What keeps two fields in step is never interrupted. A long call into C is not interrupted either,
so what reads bytes bounds them before.
"""

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeVar

from drawbridge import bounded_cache
from drawbridge.cel import programs
from drawbridge.solver.brief import Brief, CutShort

T = TypeVar("T")
# An exception in a callback of the collector is lost, and then the next one counts.
_AGAIN_SECONDS: Final = 0.002
_WHOLE: Final = frozenset({bounded_cache.__file__, programs.__file__})
_FRAMES: Final = 3


class Alarm(Brief):
    """Cuts computations that take too much time of the processor. There is one in a process."""

    def __init__(self) -> None:
        super().__init__()
        self._end: float | None = None
        signal.signal(signal.SIGALRM, self._on_alarm)

    def run(self, compute: Callable[[], T]) -> T:
        """Return what a function returns; raises CutShort."""
        try:
            self._end = time.thread_time() + self.seconds
            signal.setitimer(signal.ITIMER_REAL, self.seconds, _AGAIN_SECONDS)
            try:
                return compute()
            finally:
                self._stop()
        except CutShort:
            self._stop()
            raise

    def _stop(self) -> None:
        self._end = None
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _on_alarm(self, _: int, frame: FrameType | None) -> None:
        """Cut the computation, unless the processor was somewhere else, or a cache is written."""
        if self._end is None or time.thread_time() < self._end or is_whole(frame):
            return
        raise CutShort


def is_whole(frame: FrameType | None) -> bool:
    """Whether code is running that is not interrupted."""
    for _ in range(_FRAMES):
        if frame is None:
            return False
        if frame.f_code.co_filename in _WHOLE:
            return True
        frame = frame.f_back
    return False
