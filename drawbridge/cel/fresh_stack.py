"""Runs the work on a deep subtree on a new stack before the interpreter's stack is full.

An expression can nest more than 1,000 levels deep after macro expansion. Each thread has its own
recursion limit, so a recursive function continues in a new thread every DEPTH levels. The limit of
the process does not change.
"""

import ctypes
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, ParamSpec, TypeVar, cast

from drawbridge.brief import CutShort, waiting, whole

DEPTH = 80
# How long an interrupted thread has to end, before it is interrupted again.
_AGAIN_SECONDS: Final = 0.001

P = ParamSpec("P")
R = TypeVar("R")


class _Chain:
    """Threads of which each waits for the next one, and the last one computes.

    A thread notes that it computes before it looks whether the chain is interrupted, and what
    interrupts looks in the opposite order. So neither misses the other, also while one starts.
    """

    def __init__(self) -> None:
        self.computing = 0
        self._is_interrupted = False

    def begin(self) -> None:
        """Note that this thread computes from now on; raises CutShort."""
        self.computing = threading.get_ident()
        self._go_on()

    def _go_on(self) -> None:
        if self._is_interrupted:
            raise CutShort

    @whole
    def start(self, thread: "_Thread") -> None:
        """Start the next thread; raises CutShort. What starts a thread is not interrupted."""
        self.computing = 0
        self._go_on()
        thread.ended.acquire()
        thread.start()

    @whole
    def interrupt(self, first: "_Thread") -> None:
        """End all threads. An interruption in a callback of the collector is lost, and repeated."""
        self._is_interrupted = True
        while not first.ended.acquire(timeout=_AGAIN_SECONDS):
            number = ctypes.c_ulong(self.computing)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(CutShort))


class _Thread(threading.Thread):
    """A thread of a chain, and what its function returns or raises."""

    def __init__(self, compute: Callable[[], object], chain: _Chain) -> None:
        super().__init__(daemon=True)
        self.chain = chain
        # Not `join`, which takes a thread for ended when a signal interrupts it.
        self.ended = threading.Lock()
        self.value: object = None
        self.error: BaseException | None = None
        self._compute = compute

    def run(self) -> None:
        try:
            self.chain.begin()
            self.value = self._compute()
        except BaseException as error:  # noqa: BLE001  # re-raised in the waiting thread
            self.error = error
        finally:  # without a call before the release, as an interruption comes with a call
            self.chain.computing = 0
            self.ended.release()


@waiting
def on_fresh_stack(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `function` in a new thread, wait, and return its result or raise its error.

    If the caller is interrupted, the thread has ended as well.
    """
    outer = threading.current_thread()
    chain = outer.chain if isinstance(outer, _Thread) else _Chain()
    thread = _Thread(partial(function, *args, **kwargs), chain)
    try:
        chain.start(thread)
        thread.ended.acquire()
    except CutShort:
        chain.interrupt(thread)
        raise
    chain.begin()
    if thread.error is not None:
        raise thread.error
    return cast("R", thread.value)
