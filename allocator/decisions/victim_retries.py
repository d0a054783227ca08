"""Which waiting pods ask for victims again, and when.

A pod that got no victims asks again when another pod has ended. It pauses between these attempts,
on a clock of its own: it never misses free devices because of them.
"""

import heapq
from collections.abc import Callable, Container
from typing import Any

from allocator.decisions.pauses import Pauses


class VictimRetries:
    """The pods that got no victims, and those of them that ask again, in order."""

    def __init__(self) -> None:
        self._pauses = Pauses()
        # In order, which a set of texts is not.
        self._refused: dict[str, None] = {}
        self._to_retry: dict[str, None] = {}
        self.may_be_due = False  # whether a pod that asks again may have no pause any more

    def refuse(self, uid: str) -> None:
        """Note that a pod got no victims."""
        self._refused[uid] = None

    def retry(self, uid: str) -> None:
        """Let a pod ask for victims again, at the end of its pause."""
        self._to_retry[uid] = None
        self.may_be_due = True

    def retry_refused(self) -> None:
        """Let all pods ask again that got no victims, because another pod has ended."""
        if self._refused:
            self._to_retry |= self._refused
            self.may_be_due = True

    def pause(self, uid: str, until: float) -> None:
        """Let a pod not ask before a time."""
        self._pauses.extend(uid, until)

    def take_due(
        self, now: float, waiting: Container[str], most: int, place_of: Callable[[str], Any]
    ) -> list[str]:
        """Return the first pods that ask again now, at most so many, and begin their pauses."""
        self.may_be_due |= self._pauses.take_ended(now, waiting)
        if not self.may_be_due:
            return []
        due = [uid for uid in self._to_retry if self._pauses.is_over(uid, now)]
        some = heapq.nsmallest(most, due, key=place_of)
        self.may_be_due = len(some) < len(due)
        for uid in some:
            # It stays refused, and is woken again if this wake is lost.
            del self._to_retry[uid]
            self._pauses.grow(uid, now)
        return some

    def next_end(self, waiting: Container[str]) -> float | None:
        """Return when the pause of a pod that waits ends; None if none does."""
        return self._pauses.next_end(waiting)

    def stop_asking(self, uid: str) -> None:
        """Let a pod ask no more, which has devices or does not wait; its pauses still grow."""
        self._refused.pop(uid, None)
        self._to_retry.pop(uid, None)

    def forget(self, uid: str) -> None:
        """Forget a pod."""
        self.stop_asking(uid)
        self._pauses.forget(uid)
