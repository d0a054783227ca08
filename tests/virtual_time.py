"""An event loop on a virtual clock, for tests in which hours pass."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes at once when nothing is left to do."""

    def __init__(self) -> None:
        self._virtual = 0.0
        super().__init__(_NoWait(self))

    def time(self) -> float:
        """Return the virtual time."""
        return self._virtual

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self._virtual += seconds


class _NoWait(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        """Pass the time instead of waiting."""
        if timeout is None:
            raise AssertionError("the test waits for something that never happens")
        self._loop.pass_time(max(timeout, 0))
        return []  # nothing comes from outside


def run_virtually(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test to its end; what still runs then is cancelled."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())
