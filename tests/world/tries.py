"""How often a scheduler tries each pod: two pods must not wake each other without end."""

from collections import deque
from typing import Final

# A pod that changes keep waking needs longer for so many tries.
MOST_TRIES: Final = 20
SECONDS: Final = 5.0
# A search that is cut goes on where it was, on the next node or with other members.
_MOST_CUT: Final = 100


class Tries:
    """The times of the last tries of each pod."""

    def __init__(self) -> None:
        self.endless: list[str] = []  # pods that were tried too often
        self._times: dict[str, deque[float]] = {}
        self._cut: dict[str, deque[float]] = {}

    def note(self, uid: str, now: float) -> None:
        """Note that a pod is tried."""
        times = self._times.setdefault(uid, deque(maxlen=MOST_TRIES))
        self._add(uid, times, now)

    def note_cut(self, uid: str, now: float) -> None:
        """Note that the search of this try was cut, so that it counts as a part of one only."""
        if times := self._times.get(uid):
            times.pop()
        self._add(uid, self._cut.setdefault(uid, deque(maxlen=_MOST_CUT)), now)

    def _add(self, uid: str, times: deque[float], now: float) -> None:
        times.append(now)
        if len(times) == times.maxlen and now - times[0] < SECONDS:
            self.endless.append(uid)
