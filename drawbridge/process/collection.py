"""Decides when Python looks for garbage: rarely in a command, and never long on an event loop."""

import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from drawbridge.brief import whole

# A full collection comes after so many of the middle generation, instead of ten.
_FULL_AFTER: Final = 5
_OLDEST: Final = 2
# One of so many objects left out one by one is reason to look at all.
_MANY: Final = 4
# Of a command: objects that are new until the first collection, and collections until a larger one.
# What a command reads stays until it ends, and a million objects of garbage are some 100 MiB.
_RARELY: Final = 1_000_000, 20, 50


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Look for garbage less often, in work whose objects mostly stay until it ends.

    Of several at a time, the first one decides when that ends.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        if before != _RARELY:
            gc.set_threshold(*before)


class CollectionPause:
    """Pauses garbage collection during long work that creates many lasting objects.

    A collection stops all threads for as long as the heap is large. After the first work, the
    objects that exist are left out of later collections, because most of them stay as they are.
    """

    def __init__(self, pause: Callable[[], AbstractContextManager[None]]) -> None:
        self._pause = pause
        self._is_first = True

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """Pause garbage collection; it continues afterwards, also after an exception."""
        with self._pause():
            yield
            if self._is_first:
                gc.freeze()
                self._is_first = False


class RebuildPause:
    """Pauses garbage collection while a process builds anew what it decides with.

    What is there after the build is left out of later collections, and so is what survives a full
    one of them: what is remembered of decisions grows, and stays. So each looks only at what is new
    since the one before. Some of what was left out becomes garbage, such as what a connection was
    that ended: `look_at_all` finds it.
    """

    def __init__(self, pause: Callable[[], AbstractContextManager[None]]) -> None:
        self._pause = pause
        self._survivors: _Survivors | None = None

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """Pause garbage collection; it continues afterwards, also after an exception."""
        with self._pause():
            yield
        self._leave_out_all()

    def look_at_all(self) -> None:
        """Look at all objects if many of them were left out one by one.

        This takes as long as there are objects, and shares no memory with a copy of the process
        afterwards. So it is called where nobody waits, and while there is no copy.
        """
        if self._survivors is not None and self._survivors.are_many():
            self._leave_out_all()

    def _leave_out_all(self) -> None:
        gc.callbacks[:] = [each for each in gc.callbacks if not isinstance(each, _Survivors)]
        if self._survivors is not None:
            gc.unfreeze()
            gc.collect()
        gc.freeze()
        gc.collect()  # of nothing: Python waits for a quarter of what the last one left
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, _FULL_AFTER)
        self._survivors = _Survivors()
        gc.callbacks.append(self._survivors)


class _Survivors:
    """Leaves survivors of full collections out of the next ones, and counts them."""

    def __init__(self) -> None:
        self._all = gc.get_freeze_count()
        self._left_out = 0

    def are_many(self) -> bool:
        """Whether so many were left out, as a part of all, and still exist."""
        if self._left_out * _MANY < self._all:
            return False
        self._left_out = gc.get_freeze_count() - self._all
        return self._left_out * _MANY >= self._all

    @whole
    def __call__(self, phase: str, collection: Mapping[str, Any]) -> None:
        if phase == "stop" and collection["generation"] == _OLDEST:
            self._left_out += len(gc.get_objects(_OLDEST))
            gc.freeze()
