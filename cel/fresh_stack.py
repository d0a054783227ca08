"""Deep expressions: work on a subtree goes on on a fresh stack before the interpreter's is full.

An expression may be nested more than a thousand levels deep once its macros are expanded. Each
thread has a stack limit of its own, so whoever descends hands over to a new one every DEPTH
levels; no limit of the process is touched.
"""

import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

DEPTH = 80

P = ParamSpec("P")
R = TypeVar("R")


def on_fresh_stack(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `function` in a thread of its own and wait; what it gives or raises is the caller's."""
    results: list[R] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  # handed over to the waiting thread
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
