"""Which names have series of their own in a metric whose names users choose."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

OTHER: Final = "other"
# By then Prometheus has read what a series counted.
IDLE_SECONDS: Final = 3600.0
K = TypeVar("K", bound=Hashable)


class NamedSeries(Generic[K]):
    """The names with series of their own, `most` at a time; the others count as `other`.

    A name that was not used for an hour makes way for one that comes. Then `forget` has to drop its
    series. What that counted must not be added to another one, where it would be an increase now.
    """

    def __init__(self, most: int, other: K, forget: Callable[[K], object]) -> None:
        self._most = most
        self._other, self._forget = other, forget
        self._used: OrderedDict[K, float] = OrderedDict()  # when last; the longest ago is first

    def use(self, name: K, now: float) -> K:
        """Return under which name something counts that is used now."""
        if name == self._other:
            return name
        if name not in self._used and len(self._used) >= self._most:
            oldest = next(iter(self._used), name)
            if now - self._used.get(oldest, now) < IDLE_SECONDS:
                return self._other
            del self._used[oldest]
            self._forget(oldest)
        self._used[name] = now
        self._used.move_to_end(name)
        return name
