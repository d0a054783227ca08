"""How long the search on a node may take at once, by the namespace of the pod.

A search that is cut goes on in a copy of the process. What it took until then was in vain, and
others waited: a namespace with such a search has less time for the next one.
"""

from typing import Final, NamedTuple

from drawbridge.bounded_cache import BoundedCache

USUAL_SECONDS: Final = 0.02
LEAST_SECONDS: Final = 0.001
# So long after its last cut, a namespace has the usual time again.
FORGIVEN_SECONDS: Final = 10.0
MAX_NAMESPACES: Final = 4096


class _Cuts(NamedTuple):
    """The time that is left to a namespace, and when its last search was cut."""

    seconds: float
    at: float


class NamespaceBriefs:
    """The time of each namespace."""

    def __init__(self) -> None:
        self._cuts: BoundedCache[str, _Cuts] = BoundedCache(MAX_NAMESPACES)

    def seconds(self, namespace: str, now: float) -> float:
        """Return how long the search on a node may take."""
        cuts = self._cuts.get(namespace)
        is_usual = cuts is None or now - cuts.at >= FORGIVEN_SECONDS
        return USUAL_SECONDS if is_usual or cuts is None else cuts.seconds

    def note_cut(self, namespace: str, now: float) -> None:
        """Note that a search was cut."""
        less = max(LEAST_SECONDS, self.seconds(namespace, now) / 4)
        self._cuts.put(namespace, _Cuts(less, now))
