"""What one turn of waking may do, and what it has done."""

from collections.abc import Callable
from typing import Final, NamedTuple

# To pass over a pod that cannot be woken now takes microseconds.
VISITS_PER_TURN: Final = 2048


class Turn(NamedTuple):
    """The pods to wake, and whether there is more to do in the current state.

    A copy of the process has to decide about the pod `aside`, if there is one.
    """

    woken: tuple[str, ...]
    unfinished: bool
    aside: str = ""


class TurnWork:
    """What one turn may still do, and the pods that it woke."""

    def __init__(self, now: float, out_of_time: Callable[[], bool]) -> None:
        self.now = now
        self.tries = 0
        self.visits = VISITS_PER_TURN
        self.out_of_time = out_of_time
        self.woken: list[str] = []

    @property
    def is_over(self) -> bool:
        """Whether the turn may do no more."""
        return not self.tries or not self.visits or self.out_of_time()
