"""Cuts a computation short, wherever it is.

A signal interrupts the main thread between two instructions of Python. So only pure code runs
within an alarm: its results are new values, and its caches take each value with one assignment.
What keeps two fields in step is never interrupted. A long call into C is not interrupted either,
so what reads bytes bounds them before.
"""

import atexit
import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, TypeVar

from drawbridge.brief import Brief, CutShort, is_waiting, is_whole

T = TypeVar("T")
# A timer rings this often while one computation follows the other, because to set it takes longer
# than most of them; and not while the handler of the previous ring still runs. It ends with its
# first ring between two computations.
_RINGS: Final = 4
_LEAST_SECONDS: Final = 0.001


class CutAlarm(Brief):
    """Cuts computations that take too much time of the processor. There is one in a process.

    It never rings in a copy of the process, which the kernel limits.
    """

    def __init__(self) -> None:
        super().__init__()
        self._end = math.inf
        self._end_of_waiting = math.inf  # by the clock of the wall
        self._set_to = 0.0  # the seconds of the timer that rings
        self._is_copy = False
        signal.signal(signal.SIGALRM, self._on_alarm)
        self._report = sys.unraisablehook
        sys.unraisablehook = self._on_unraisable
        os.register_at_fork(after_in_child=self._become_copy)
        atexit.register(self.end)

    def run(self, compute: Callable[[], T]) -> T:
        """Return what a function returns; raises CutShort. Without a limit, it is not cut."""
        if self._is_copy or self.seconds == math.inf:
            return compute()
        self._end = time.thread_time() + self.seconds
        self._end_of_waiting = time.monotonic() + self.seconds
        if self.seconds != self._set_to:
            self._set_to = self.seconds
            again = max(self.seconds / _RINGS, _LEAST_SECONDS)
            signal.setitimer(signal.ITIMER_REAL, self.seconds, again)
        return interruptible(compute)

    def stop(self) -> None:
        """Cut nothing until the next computation."""
        self._end = math.inf

    def end(self) -> None:
        """Ring no more. A process that ends has no handler at last."""
        self._set_to = 0.0
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _become_copy(self) -> None:
        """Cut nothing from now on. The system gives no timer to a copy."""
        self._is_copy = True

    def _on_alarm(self, _: int, frame: FrameType | None) -> None:
        """Cut the computation, unless the processor was somewhere else.

        An exception in a callback of the collector is lost, and then the next ring counts.
        """
        if self._end == math.inf:
            self.end()
        elif self._is_late(frame) and is_interruptible(frame):
            raise CutShort

    def _on_unraisable(self, raised: "sys.UnraisableHookArgs") -> None:
        """Report what a callback of the collector raises, if it is not the alarm."""
        if raised.exc_type is not CutShort:
            self._report(raised)

    def _is_late(self, frame: FrameType | None) -> bool:
        """Whether the computation took its time, here or in a thread that it waits for."""
        if time.thread_time() >= self._end:
            return True
        waits = any(is_waiting(each.f_code) for each in _with_callers(frame))
        return waits and time.monotonic() >= self._end_of_waiting


@contextlib.contextmanager
def cut_after(seconds: float) -> Iterator[Brief]:
    """Cut each computation of a command after so many seconds of the processor.

    Signals come to the main thread only, so that nothing is cut elsewhere.
    """
    if threading.current_thread() is not threading.main_thread():
        yield Brief()
        return
    before, report = signal.getsignal(signal.SIGALRM), sys.unraisablehook
    alarm = CutAlarm()
    alarm.seconds = seconds
    try:
        yield alarm
    finally:
        alarm.end()
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = report


def interruptible(compute: Callable[[], T]) -> T:
    """Compute. An alarm interrupts only what is called here, whenever it rings."""
    return compute()


def is_interruptible(frame: FrameType | None) -> bool:
    """Whether a frame belongs to a computation, and keeps no two fields in step."""
    codes = [each.f_code for each in _with_callers(frame)]
    within = codes[: codes.index(_CODE)] if _CODE in codes else ()
    return bool(within) and not any(map(is_whole, within))


def _with_callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


_CODE: Final = interruptible.__code__
