"""Runs the work on a deep subtree on a new stack before the interpreter's stack is full.

An expression can nest more than 1,000 levels deep after macro expansion. Each thread has its own
recursion limit, so a recursive function continues in a new thread every DEPTH levels. The limit of
the process does not change.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from drawbridge.brief import CutShort, waiting

DEPTH = 80

P = ParamSpec("P")
R = TypeVar("R")


class _Thread(threading.Thread):
    """A thread, and the one that it waits for."""

    inner: "_Thread | None" = None

    def end(self) -> None:
        """Interrupt the thread and those that it waits for."""
        thread: _Thread | None = self
        while thread is not None:
            number = ctypes.c_ulong(thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(CutShort))
            thread = thread.inner


@waiting
def on_fresh_stack(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `function` in a new thread, wait, and return its result or raise its error.

    If the caller is interrupted, so is the thread.
    """
    results: list[R] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  # re-raised in the waiting thread
            errors.append(error)

    thread, outer = _Thread(target=run, daemon=True), threading.current_thread()
    if isinstance(outer, _Thread):
        outer.inner = thread
    try:
        thread.start()
        thread.join()
    except CutShort:
        thread.end()
        raise
    if errors:
        raise errors[0]
    return results[0]
