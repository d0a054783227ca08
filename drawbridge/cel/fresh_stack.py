"""Runs the work on a deep subtree on a new stack before the interpreter's stack is full.

An expression can nest more than 1,000 levels deep after macro expansion. Each thread has its own
recursion limit, so a recursive function continues in a new thread every DEPTH levels. The limit of
the process does not change.
"""

import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

DEPTH = 80

P = ParamSpec("P")
R = TypeVar("R")


def on_fresh_stack(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `function` in a new thread, wait, and return its result or raise its error."""
    results: list[R] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  # re-raised in the waiting thread
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
