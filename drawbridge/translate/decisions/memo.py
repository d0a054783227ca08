"""A bounded cache of translation results, by the input that determines them."""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

# Far more kinds of pods than a cluster has. Each entry takes some kilobytes.
MAX_ENTRIES: Final = 1024
# Longer keys take more memory than they are worth.
MAX_KEY_BYTES: Final = 32 * 1024

_Key = TypeVar("_Key", bound=Hashable)
_Result = TypeVar("_Result")


class TranslationCache(Generic[_Key, _Result]):
    """Caches results for one configuration and one version of the facts."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._results: dict[_Key, _Result] = {}

    def get(self, key: _Key) -> _Result | None:
        """Return the cached result; None for unhashable keys, which hold free-form user values."""
        try:
            return self._results.get(key)
        except TypeError:  # network parameters may be lists
            return None

    def put(self, key: _Key, result: _Result) -> None:
        """Store a result; a full cache drops all earlier results first."""
        if isinstance(key, bytes) and len(key) > MAX_KEY_BYTES:
            return
        if len(self._results) >= self._max_entries:
            self._results.clear()
        try:
            self._results[key] = result
        except TypeError:
            return
