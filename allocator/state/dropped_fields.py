"""Which fields of allocations the API server has not stored lately."""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

_LOG: Final = logging.getLogger("allocator.state.dropped_fields")
# So long a feature counts as disabled. An API server gets a feature gate only by a restart, and
# those of a cluster restart one after another, which takes minutes. After each such time, a pod
# that needs the field can fail once more, and the decisions are built anew twice.
DROPPED_SECONDS: Final = 600.0


class DroppedFields:
    """The fields that responses have lacked; `on_change` is called after they have changed.

    They say nothing of a device: an API server without a feature gate drops a field of all devices.
    Who begins to lead does not know them, and learns them by the first allocation.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._ends: dict[str, asyncio.TimerHandle] = {}

    @property
    def fields(self) -> frozenset[str]:
        """The names of the fields."""
        return frozenset(self._ends)

    def note(self, fields: Collection[str]) -> None:
        """Note fields that a response has just lacked, from now on for some time."""
        loop, before = asyncio.get_running_loop(), self.fields
        for field in fields:
            if field in self._ends:
                self._ends[field].cancel()
            self._ends[field] = loop.call_later(DROPPED_SECONDS, self._forget, field)
        if added := sorted(self.fields - before):
            text = "the API server has not stored %s of an allocation: it counts for %.0f s as one"
            text += " without the feature gate"
            _LOG.warning(text, ", ".join(added), DROPPED_SECONDS)
            self._on_change()

    def _forget(self, field: str) -> None:
        del self._ends[field]
        self._on_change()
