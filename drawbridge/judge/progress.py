"""Remembers what a judgement has answered, so that it can end early and continue later.

The caches keep what was evaluated and searched. What no cache keeps are the answers to whole
questions, and what is known of more expressions than the cache of programs holds.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from drawbridge.solver.expressions import do_nothing
from drawbridge.solver.world import World

T = TypeVar("T")


class Progress:
    """The answers about one object, in the order in which they are asked for."""

    def __init__(self) -> None:
        self._answers: list[Any] = []
        self._kept: dict[Hashable, Any] = {}
        self._position = 0
        self._world: World | None = None
        self._pause = do_nothing

    def start(self, world: World, pause: Callable[[], None]) -> None:
        """Begin the judgement again. Answers about another world are forgotten.

        `pause` is called before what is not known, and may raise.
        """
        if world is not self._world:
            self._answers, self._world = [], world
        self._position, self._pause = 0, pause

    def answer(self, ask: Callable[[], T]) -> T:
        """Return the answer to the next question, and ask it only if it is not known."""
        if self._position == len(self._answers):
            self._pause()
            self._answers.append(ask())
        known: T = self._answers[self._position]
        self._position += 1
        return known

    def remember(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return a value that does not depend on the world, and compute it only once."""
        if key not in self._kept:
            self._pause()
            self._kept[key] = compute()
        known: T = self._kept[key]
        return known
