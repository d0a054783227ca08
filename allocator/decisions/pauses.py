"""How long pods that were woken pause before they are woken again, for one reason of waking."""

import heapq
from collections.abc import Container
from typing import Final, NamedTuple

FIRST_PAUSE_SECONDS: Final = 1.0
MAX_PAUSE_SECONDS: Final = 60.0


class _Pause(NamedTuple):
    wakes: int = 0
    until: float = 0.0


_NO_PAUSE: Final = _Pause()


class Pauses:
    """The pauses of pods, which grow with each wake."""

    def __init__(self) -> None:
        self._pauses: dict[str, _Pause] = {}
        self._ends: list[tuple[float, str]] = []  # a heap

    def is_over(self, uid: str, now: float) -> bool:
        """Whether a pod can be woken."""
        return self._pauses.get(uid, _NO_PAUSE).until <= now

    def grow(self, uid: str, now: float) -> None:
        """Begin the pause of a pod that is woken now."""
        wakes = self._pauses.get(uid, _NO_PAUSE).wakes + 1
        # A bounded exponent, because the number of wakes is not.
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(wakes - 1, 10), MAX_PAUSE_SECONDS)
        self._set(uid, _Pause(wakes, now + pause))

    def extend(self, uid: str, until: float) -> None:
        """Let a pause last at least until a time."""
        pause = self._pauses.get(uid, _NO_PAUSE)
        self._set(uid, pause._replace(until=max(until, pause.until)))

    def shrink(self, uid: str, until: float) -> None:
        """Let a pause last at most until a time, and begin again with a short one."""
        if uid in self._pauses:
            self._set(uid, _Pause(until=min(until, self._pauses[uid].until)))

    def forget(self, uid: str) -> None:
        """Forget a pod."""
        self._pauses.pop(uid, None)

    def next_end(self, waiting: Container[str]) -> float | None:
        """Return when the first pause of the pods that wait ends; None if there is none."""
        while self._ends:
            until, uid = self._ends[0]
            if uid in waiting and self._pauses.get(uid, _NO_PAUSE).until == until:
                return until
            heapq.heappop(self._ends)
        return None

    def take_ended(self, now: float, waiting: Container[str]) -> bool:
        """Whether a pause of the pods that wait has ended since the last call."""
        ended = False
        while (until := self.next_end(waiting)) is not None and until <= now:
            heapq.heappop(self._ends)
            ended = True
        return ended

    def _set(self, uid: str, pause: _Pause) -> None:
        self._pauses[uid] = pause
        heapq.heappush(self._ends, (pause.until, uid))
