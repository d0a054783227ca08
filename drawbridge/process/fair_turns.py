"""Turns that callers take one at a time, so that no key delays the callers of the others.

The next turn is that of the group whose turns took least time, there of such a key, and there of
the first caller. So who has long turns, in however many keys, delays others by one of them. The
number of callers that wait is bounded: the key with the highest product of its calls and of its
group's loses one to others.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, NamedTuple

from drawbridge.bounded_cache import BoundedCache
from drawbridge.turn_times import TurnTimes

MAX_GROUPS: Final = 256
_Turn = asyncio.Future[None]


class TurnKey(NamedTuple):
    """Who takes a turn: a namespace, for example, in the group of a network peer."""

    name: str
    group: str = ""


class NoTurnError(Exception):
    """Too many callers wait for a turn."""

    def __init__(self) -> None:
        super().__init__("too many calls wait")


class FairTurns:
    """Grants one turn at a time. Of a key without callers, it holds how long its turns took."""

    def __init__(self, max_waiting: int, now: Callable[[], float] = time.monotonic) -> None:
        self._max_waiting, self._now = max_waiting, now
        self._groups: TurnTimes[str] = TurnTimes()
        # The keys of each group, of the groups that were used last.
        self._keys: BoundedCache[str, TurnTimes[TurnKey]] = BoundedCache(MAX_GROUPS)
        # In the order of turns, by group. No key is without callers, no group without keys.
        self._waiting: dict[str, dict[TurnKey, deque[_Turn]]] = {}
        self._is_taken = False

    def __len__(self) -> int:
        return sum(map(_count, self._waiting.values()))

    @contextlib.asynccontextmanager
    async def take(self, key: TurnKey) -> AsyncIterator[None]:
        """Wait for a turn, and pass it on when the context ends.

        Raise NoTurnError if too many callers wait, also while waiting.
        """
        await self._wait(key)
        began = self._now()
        try:
            yield
        finally:
            seconds = self._now() - began
            self._groups.note(key.group, seconds)
            self._times_in(key.group).note(key, seconds)
            self._pass_on()

    def _times_in(self, group: str) -> TurnTimes[TurnKey]:
        if (times := self._keys.get(group)) is None:
            times = TurnTimes()
            self._keys.put(group, times)
        return times

    async def _wait(self, key: TurnKey) -> None:
        if not self._is_taken:
            self._is_taken = True
            return
        turn: _Turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key.group, {}).setdefault(key, deque()).append(turn)
        if len(self) > self._max_waiting:
            self._make_room(key)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._remove(key, turn)
            elif turn.exception() is None:  # it was granted a moment ago
                self._pass_on()
            raise

    def _make_room(self, newest: TurnKey) -> None:
        """End the last call of the key with the highest product of its calls and of its group's.

        So neither a key with many calls nor a group with many keys takes the places of others. If
        the products are equal, the newest call ends.
        """
        calls = {
            key: len(turns) for group in self._waiting.values() for key, turns in group.items()
        }
        in_group = {name: _count(group) for name, group in self._waiting.items()}
        loser = max((newest, *reversed(calls)), key=lambda key: calls[key] * in_group[key.group])
        last = self._waiting[loser.group][loser][-1]
        self._remove(loser, last)
        if not last.done():  # a cancelled call has not removed its turn yet
            last.set_exception(NoTurnError())

    def _pass_on(self) -> None:
        while self._waiting:
            name = self._groups.choose(self._waiting)
            group = self._waiting.pop(name)
            key = self._times_in(name).choose(group)
            turns = group.pop(key)
            turn = turns.popleft()
            # To the end: of those whose turns took as long, the others come first.
            if turns:
                group[key] = turns
            if group:
                self._waiting[name] = group
            if not turn.done():  # a cancelled call has not removed its turn yet
                turn.set_result(None)
                return
        self._is_taken = False

    def _remove(self, key: TurnKey, turn: _Turn) -> None:
        group = self._waiting.get(key.group, {})
        turns = group.get(key, deque())
        with contextlib.suppress(ValueError):
            turns.remove(turn)
        if not turns:
            group.pop(key, None)
        if not group:
            self._waiting.pop(key.group, None)


def _count(group: Mapping[TurnKey, deque[_Turn]]) -> int:
    return sum(map(len, group.values()))
