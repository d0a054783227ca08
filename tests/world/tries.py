"""How often a scheduler tries each pod: two pods must not wake each other without end."""

from collections import deque
from typing import Final

# A pod that changes keep waking needs longer for so many tries.
MOST_TRIES: Final = 20
SECONDS: Final = 5.0


class Tries:
    """The times of the last tries of each pod."""

    def __init__(self) -> None:
        self.endless: list[str] = []  # pods that were tried too often
        self._times: dict[str, deque[float]] = {}

    def note(self, uid: str, now: float) -> None:
        """Note that a pod is tried."""
        times = self._times.setdefault(uid, deque(maxlen=MOST_TRIES))
        times.append(now)
        if len(times) == MOST_TRIES and now - times[0] < SECONDS:
            self.endless.append(uid)
