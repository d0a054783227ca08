"""Keep the values that were in use during the last minutes."""

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
# More changes than this within the window drop the oldest values.
_MAX_VALUES: Final = 64


class RecentValues(Generic[T]):
    """A value that changes, and the values that it replaced within the window."""

    def __init__(self, value: T, seconds: float, now: Callable[[], float]) -> None:
        self._value = value
        self._seconds = seconds
        self._now = now
        self._replaced: deque[tuple[T, float]] = deque(maxlen=_MAX_VALUES)

    def set(self, value: T) -> None:
        """Replace the value."""
        if value != self._value:
            self._replaced.append((self._value, self._now()))
            self._value = value

    def recent(self) -> tuple[T, ...]:
        """Return the value, and every different value that was in use within the window."""
        while self._replaced and self._now() - self._replaced[0][1] > self._seconds:
            self._replaced.popleft()
        values = [self._value]
        for each, _ in reversed(self._replaced):
            if each not in values:
                values.append(each)
        return tuple(values)
