"""Turns that callers take one at a time, so that no key delays the callers of the others.

Keys take turns; within a key the first caller is first. Keys that come last have a turn when no
other key waits. The number of callers that wait is bounded. A key with many of them loses its last
one to a key with few.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable

_Turn = asyncio.Future[None]


class NoTurnError(Exception):
    """Too many callers wait for a turn."""

    def __init__(self) -> None:
        super().__init__("too many calls wait")


class FairTurns:
    """Grants one turn at a time. Holds nothing of a key without callers."""

    def __init__(
        self, max_waiting: int, comes_last: Callable[[str], bool] = lambda _key: False
    ) -> None:
        self._max_waiting = max_waiting
        self._comes_last = comes_last
        self._waiting: dict[str, deque[_Turn]] = {}
        self._is_taken = False

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def is_awaited(self, key: str) -> bool:
        """Return whether another key should have the turn that this key has. For any thread."""
        others = [each for each in list(self._waiting) if each != key]
        return bool(others) and (self._comes_last(key) or not all(map(self._comes_last, others)))

    @contextlib.asynccontextmanager
    async def take(self, key: str) -> AsyncIterator[None]:
        """Wait for a turn, and pass it on when the context ends.

        Raise NoTurnError if too many callers wait, also while waiting.
        """
        await self._wait(key)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, key: str) -> None:
        if not self._is_taken:
            self._is_taken = True
            return
        if len(self) >= self._max_waiting:
            self._make_room(key)
        turn: _Turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._remove(key, turn)
            else:  # it was granted a moment ago
                self._pass_on()
            raise

    def _make_room(self, key: str) -> None:
        """End the last call of the key with most of them, unless the new call belongs there."""
        most = max(self._waiting, key=lambda each: len(self._waiting[each]), default=key)
        if len(self._waiting.get(most, ())) <= len(self._waiting.get(key, ())) + 1:
            raise NoTurnError
        last = self._waiting[most][-1]
        self._remove(most, last)
        last.set_exception(NoTurnError())

    def _pass_on(self) -> None:
        while self._waiting:
            first = (each for each in self._waiting if not self._comes_last(each))
            key = next(first, next(iter(self._waiting)))
            turns = self._waiting.pop(key)
            turn = turns.popleft()
            if turns:
                self._waiting[key] = turns  # to the end: the other keys come first
            if not turn.done():  # a cancelled call has not removed its turn yet
                turn.set_result(None)
                return
        self._is_taken = False

    def _remove(self, key: str, turn: _Turn) -> None:
        turns = self._waiting.get(key, deque())
        with contextlib.suppress(ValueError):
            turns.remove(turn)
        if not turns:
            self._waiting.pop(key, None)
