"""Work of several steps that leaves the loop to others after each step."""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from typing import Final, Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class NextTurn:
    """Calls a function once in the next turn of the loop, however often that is asked for."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step: Final = step
        self._is_scheduled = False

    def begin(self) -> None:
        """Have the function called in the next turn; it can ask for another one."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        self._step()


class KeyTurns(Generic[T]):
    """Calls a function with some keys in each turn of the loop, with each key once."""

    def __init__(self, step: Callable[[Sequence[T]], None], size: int) -> None:
        self._step: Final = step
        self._size: Final = size
        self._left: dict[T, None] = {}
        self._next = NextTurn(self._run)

    def add(self, keys: Iterable[T]) -> None:
        """Have the function called with these keys as well."""
        self._left |= dict.fromkeys(keys)
        if self._left:
            self._next.begin()

    def _run(self) -> None:
        keys = tuple(islice(self._left, self._size))
        for each in keys:
            del self._left[each]
        try:
            self._step(keys)
        finally:
            # A bug for some keys must not keep the others from their turn.
            self.add(())
