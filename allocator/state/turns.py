"""Work of several steps that leaves the loop to others after each step."""

import asyncio
from collections.abc import Callable
from typing import Final


class Turns:
    """Calls a function once in each turn of the loop, as long as it returns that more is left."""

    def __init__(self, step: Callable[[], bool]) -> None:
        self._step: Final = step
        self._is_scheduled = False

    def begin(self) -> None:
        """Have the function called in the next turn, unless that is so already."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        if self._step():
            self.begin()
