"""Keep what any replica may have used for a pod during the last minutes.

Replicas get a new configuration, new facts and new match conditions at different times, and the API
server uses its own copy of the conditions. The guard therefore denies nothing that an older value
would have left. A new process does not know older values, so it is incomplete for the same time.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from drawbridge.agreement.published_facts import FactsConfigMap, read_kept_facts
from drawbridge.config.model import Configuration
from drawbridge.facts.model import Facts
from webhook.admission.protocols import RecentInputs

T = TypeVar("T")
# A replica whose watch ended learns of a change when the watch works again.
SETTLE_SECONDS: Final = 300.0
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
        for replaced, _ in reversed(self._replaced):
            if replaced not in values:
                values.append(replaced)
        return tuple(values)


class RecentState:
    """The configurations, facts and webhook configurations of the last minutes."""

    def __init__(
        self,
        configuration: Configuration,
        seconds: float = SETTLE_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.configurations = RecentValues(configuration, seconds, now)
        none: Mapping[str, Any] | None = None
        self.webhooks = RecentValues(none, seconds, now)
        self._seconds = seconds
        self._now = now
        self._started: float | None = None
        self._facts: tuple[FactsConfigMap, tuple[Facts, ...]] = (FactsConfigMap(), ())

    def start(self) -> None:
        """Start to count the time for which all values are known."""
        if self._started is None:
            self._started = self._now()

    def read(self, published: FactsConfigMap) -> RecentInputs:
        """Return the recent values. The facts are all versions that the controller keeps."""
        if self._facts[0] is not published:
            self._facts = (published, read_kept_facts(published))
        return RecentInputs(
            self.configurations.recent(),
            self._facts[1],
            self.webhooks.recent(),
            self._started is not None and self._now() - self._started >= self._seconds,
        )
