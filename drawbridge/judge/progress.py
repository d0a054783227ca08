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
        self._steps: dict[Hashable, Any] = {}
        self._kept: dict[Hashable, Any] = {}
        self._has_gained = False
        self._position = 0
        self._world: World | None = None
        self._pause = do_nothing

    def start(self, world: World, pause: Callable[[], None]) -> None:
        """Begin the judgement again. Answers about another world are forgotten.

        `pause` is called before what is not known, and may raise; but not before something is kept
        that was not known, so that the judgement ends however long it takes to come so far again.
        """
        if world is not self._world:
            self._answers, self._steps, self._world = [], {}, world
        self._position, self._pause, self._has_gained = 0, pause, False

    def answer(self, ask: Callable[[], T]) -> T:
        """Return the answer to the next question, and ask it only if it is not known."""
        if self._position == len(self._answers):
            self._end_part()
            self._answers.append(ask())
            self._has_gained = True
        answer: T = self._answers[self._position]
        self._position += 1
        return answer

    def step(self, key: Hashable, take: Callable[[], T]) -> T:
        """Return a step of the question that is asked, and take it only if it is not known."""
        return self._find(self._steps, key, take)

    def remember(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return a value that does not depend on the world, and compute it only once."""
        return self._find(self._kept, key, compute)

    def _find(self, kept: dict[Hashable, Any], key: Hashable, compute: Callable[[], T]) -> T:
        if key not in kept:
            self._end_part()
            kept[key] = compute()
            self._has_gained = True
        answer: T = kept[key]
        return answer

    def _end_part(self) -> None:
        if self._has_gained:
            self._pause()
