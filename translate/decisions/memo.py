"""What was found out before, by what it depends on; bounded in number and in size.

Knows nothing of what is remembered.
"""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

# Far more kinds of pods than a cluster has; each takes some kilobytes.
MAX_ENTRIES: Final = 1024
# Longer keys are not worth their room.
MAX_KEY_BYTES: Final = 32 * 1024

_Key = TypeVar("_Key", bound=Hashable)
_Result = TypeVar("_Result")


class TranslationCache(Generic[_Key, _Result]):
    """Results under one configuration and the same facts."""

    def __init__(self, most: int = MAX_ENTRIES) -> None:
        self._most = most
        self._known: dict[_Key, _Result] = {}

    def get(self, key: _Key) -> _Result | None:
        """Recall a result; none of keys that hold what the user wrote freely."""
        try:
            return self._known.get(key)
        except TypeError:  # settings of networks may be lists
            return None

    def keep(self, key: _Key, result: _Result) -> None:
        """Remember a result; when there is no room, those that were there before are gone."""
        if isinstance(key, bytes) and len(key) > MAX_KEY_BYTES:
            return
        if len(self._known) >= self._most:
            self._known.clear()
        try:
            self._known[key] = result
        except TypeError:
            return
