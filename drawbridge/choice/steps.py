"""Limits how much of a long work is done at once, by number and by time."""

from collections.abc import Callable
from typing import Final

UNLIMITED: Final = 1 << 62


class Steps:
    """So many steps may be taken; all but the first only while there is time."""

    def __init__(
        self, left: int = UNLIMITED, out_of_time: Callable[[], bool] | None = None
    ) -> None:
        self.left = left
        self._out_of_time = out_of_time
        self._is_first = True

    def take(self) -> bool:
        """Take a step, and return whether it may be taken."""
        if self._out_of_time is not None and not self._is_first and self._out_of_time():
            self.left = 0
        self._is_first = False
        if not self.left:
            return False
        self.left -= 1
        return True
