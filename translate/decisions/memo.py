"""What was found out before, by what it depends on; bounded in number and in size.

Knows nothing of what is remembered.
"""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

# Far more kinds of pods than a cluster has; each takes some kilobytes.
MOST: Final = 1024
# Longer keys are not worth their room.
LONGEST: Final = 32 * 1024

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class Memo(Generic[Key, Result]):
    """Results under one configuration and the same facts."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: dict[Key, Result] = {}

    def get(self, key: Key) -> Result | None:
        """Recall a result; none of keys that hold what the user wrote freely."""
        try:
            return self._known.get(key)
        except TypeError:  # settings of networks may be lists
            return None

    def keep(self, key: Key, result: Result) -> None:
        """Remember a result; when there is no room, those that were there before are gone."""
        if isinstance(key, bytes) and len(key) > LONGEST:
            return
        if len(self._known) >= self._most:
            self._known.clear()
        try:
            self._known[key] = result
        except TypeError:
            return
