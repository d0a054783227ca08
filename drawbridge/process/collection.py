"""Keeps full garbage collections of a large heap away from the event loop."""

import contextlib
import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager


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
